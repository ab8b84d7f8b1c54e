"""One pass of benchmark/compare.py: its cells over one backend, between two processes of the stock host.

    one_pass.py PLAN

PLAN is a JSON object: backend, params, progress_thread, seconds (a cell), cells; and, where wanted, target_environment (variables of the
target alone), disturb (a command that is run once, when the first bytes have gone through) and corrupt (true: a byte is spoilt, to see
that it is noticed). A line of JSON a cell: name, and us (a transfer) or error; the first names the processes. Every cell's bytes are
compared before it is timed and after, then those of one round more with new contents, and every notification is counted. memory: kinds of
the initiator's and of the target's, DRAM or VRAM; both DRAM where it is not said.

With driven (true) there are neither seconds nor cells: each line of standard input is a command, {"begin": cell}, {"slice": seconds} or
{"finish": true}, and has a line in answer, a slice's with us.
"""

import functools
import gc
import json
import multiprocessing
import os
import subprocess
import sys
import time
import zlib

import numpy
import place
from nixl_cu12 import nixl_agent, nixl_agent_config

LIMIT_S = 30
BUFFER = 64 << 20
WARM_UP = 3
FIRST = {"op": "WRITE", "size": 64 << 10, "batch": 64, "notify": False, "window": 1}  # before plan's `disturb`
STRIDE = 64  # between blocks that are smaller


def make_agent(name, plan, kind):
    memory = place.make(kind, BUFFER)
    agent = nixl_agent(name, nixl_agent_config(enable_prog_thread=plan["progress_thread"], backends=[]))
    agent.create_backend(plan["backend"], plan["params"])
    agent.register_memory([(memory.address, BUFFER, 0, "")], kind, backends=[plan["backend"]])
    return agent, memory


def blocks(size, batch):
    """Offsets; those that do not fit begin again at the front."""
    stride = max(size, STRIDE)
    room = BUFFER // stride
    return [(i % room) * stride for i in range(batch)]


@functools.cache
def pattern():
    """What a buffer is filled with that is read from: the same in every process, and no two places alike."""
    return numpy.frombuffer(numpy.random.default_rng(1).bytes(BUFFER), dtype=numpy.uint8)


def kinds_of(plan):
    return plan.get("memory", ["DRAM", "DRAM"])


def checksum(memory, size, batch):
    length = max(blocks(size, batch)) + size
    memory.download(length)
    return zlib.crc32(memory.array[:length])


class Target:
    """The second process."""

    def __init__(self, plan):
        self.agent, self.memory = make_agent("target", plan, kinds_of(plan)[1])
        self.notifications = 0

    def look(self):
        self.notifications += sum(len(messages) for messages in self.agent.get_new_notifs().values())

    def describe(self):
        return self.agent.get_agent_metadata(), self.memory.address

    def load(self, metadata):
        self.agent.add_remote_agent(metadata)

    def fill(self, is_source, size, batch):
        length = max(blocks(size, batch)) + size
        self.memory.array[:length] = pattern()[:length] if is_source else 0
        self.memory.upload(length)

    def spoil(self):
        self.memory.download(1)
        self.memory.array[0] ^= 1
        self.memory.upload(1)

    def checksum(self, size, batch):
        return checksum(self.memory, size, batch)

    def count(self):
        return self.notifications


def serve(connection, plan):
    target = Target(plan)
    # With its own thread the backend has to work while nobody calls it.
    pause, looks = (0.001, 1) if plan["progress_thread"] else (0, 16)
    while True:
        while not connection.poll(pause):
            for _ in range(looks):
                target.look()
        method, arguments = connection.recv()
        if method == "end":
            end(target, plan)
        connection.send(getattr(target, method)(*arguments))


def end(holder, plan):
    """Without the exit handlers, in which the stock UCX plugin may crash. Ours takes its files in /dev/shm away with its engine."""
    if plan["backend"] == "RAILYARD":
        del holder.agent
        gc.collect()
    os._exit(0)


class Initiator:
    def __init__(self, plan):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, plan), daemon=True)
        own = dict(os.environ)
        os.environ.update(plan.get("target_environment", {}))
        self.process.start()
        os.environ.clear()
        os.environ.update(own)
        self.plan = plan
        self.agent, self.memory = make_agent("initiator", plan, kinds_of(plan)[0])
        metadata, self.remote = self.ask("describe")
        self.agent.add_remote_agent(metadata)
        self.ask("load", self.agent.get_agent_metadata())
        self.announced = 0

    def ask(self, method, *arguments):
        self.connection.send((method, arguments))
        limit = time.monotonic() + LIMIT_S
        while not self.connection.poll(0.0005):
            if time.monotonic() > limit:
                raise TimeoutError(f"the target does not answer {method}")
            self.agent.get_new_notifs()  # without a progress thread somebody has to move what the target waits for
        return self.connection.recv()

    def prepare(self, cell):
        offsets, size = blocks(cell["size"], cell["batch"]), cell["size"]
        make = self.agent.get_xfer_descs
        local, remote = (make([(base + offset, size, 0) for offset in offsets], kind)
                         for base, kind in zip((self.memory.address, self.remote), kinds_of(self.plan)))
        message = b"x" * 16 if cell["notify"] else b""
        return [self.agent.initialize_xfer(cell["op"], local, remote, "target", message, backends=[self.plan["backend"]])
                for _ in range(cell["window"])]

    def round(self, handles):
        """Posts all, waits for all."""
        transfer, check = self.agent.transfer, self.agent.check_xfer_state
        states = [transfer(handle) for handle in handles]
        limit = None
        for handle, state in zip(handles, states):
            while state == "PROC":
                state = check(handle)
                if state == "PROC":
                    now = time.monotonic()
                    limit = limit or now + LIMIT_S
                    if now > limit:
                        raise TimeoutError(f"no end after {LIMIT_S} s")
            if state != "DONE":
                raise RuntimeError(f"ended as {state}")

    def fill(self, cell):
        """New contents at the source, others at the destination."""
        size, batch = cell["size"], cell["batch"]
        end, buffer = max(blocks(size, batch)) + size, self.memory.array
        if cell["op"] == "WRITE":
            self.ask("fill", False, size, batch)
            for offset in set(blocks(size, batch)):
                buffer[offset:offset + size] = numpy.random.randint(0, 256, size, dtype=numpy.uint8)
            if size < STRIDE:  # what lies between the blocks stays as it was
                mask = numpy.zeros(end, dtype=bool)
                for offset in set(blocks(size, batch)):
                    mask[offset:offset + size] = True
                buffer[:end][~mask] = 0
        else:
            self.ask("fill", True, size, batch)
            buffer[:end] = pattern()[:end] if size < STRIDE else 0
            for offset in set(blocks(size, batch)):
                buffer[offset:offset + size] = 0
        self.memory.upload(end)

    def compare(self, cell):
        size, batch = cell["size"], cell["batch"]
        if self.plan.get("corrupt"):
            self.ask("spoil")
        if checksum(self.memory, size, batch) != self.ask("checksum", size, batch):
            raise RuntimeError("the wrong bytes have arrived")

    def move_once(self, cell):
        handles = self.prepare(cell)
        self.fill(cell)
        self.round(handles)
        self.compare(cell)
        return handles

    def release(self, handles):
        for handle in handles:
            self.agent.release_xfer_handle(handle)

    def disturb(self, command):
        """Runs the command when the two have met."""
        self.release(self.move_once(FIRST))
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=True)

    def begin(self, cell):
        self.cell, self.handles, self.rounds = cell, self.move_once(cell), 1
        for _ in range(WARM_UP):
            self.warm()

    def warm(self):
        """What is large takes too long, and gains nothing."""
        if self.cell["size"] * self.cell["batch"] < BUFFER:
            self.round(self.handles)
            self.rounds += 1

    def slice(self, seconds):
        """Microseconds a transfer."""
        begun = time.perf_counter_ns()
        end = begun + int(seconds * 1e9)
        timed, now = 0, begun
        while now < end:
            self.round(self.handles)
            timed += 1
            now = time.perf_counter_ns()
        self.rounds += timed
        return (now - begun) / 1000 / (timed * self.cell["window"])

    def finish(self):
        """Once more over other bytes: those that the timed rounds have moved were there before."""
        self.compare(self.cell)
        self.fill(self.cell)
        self.round(self.handles)
        self.rounds += 1
        self.compare(self.cell)
        self.release(self.handles)
        if self.cell["notify"]:
            self.count_notifications(self.rounds * self.cell["window"])

    def measure(self, cell):
        """Microseconds a transfer."""
        self.begin(cell)
        taken = self.slice(self.plan["seconds"])
        self.finish()
        return taken

    def obey(self, command):
        """The answer to a line of standard input."""
        if "begin" in command:
            self.begin(command["begin"])
        elif "slice" in command:
            self.warm()  # others have had the caches since
            return {"us": self.slice(command["slice"])}
        else:
            self.finish()
        return {"done": True}

    def count_notifications(self, sent):
        self.announced += sent
        limit = time.monotonic() + LIMIT_S
        while (count := self.ask("count")) != self.announced:
            if count > self.announced or time.monotonic() > limit:
                raise RuntimeError(f"{self.announced} notifications sent, {count} seen")


def say(answer):
    print(json.dumps(answer), flush=True)


def measure_all(initiator, cells):
    for cell in cells:
        try:
            say({"name": cell["name"], "us": initiator.measure(cell)})
        except Exception as error:  # the pair is out of step from here on
            say({"name": cell["name"], "error": repr(error)})
            return


def be_driven(initiator):
    for line in sys.stdin:
        try:
            say(initiator.obey(json.loads(line)))
        except Exception as error:
            say({"error": repr(error)})
            return


def main():
    plan = json.loads(sys.argv[1])
    initiator = Initiator(plan)
    say({"processes": [os.getpid(), initiator.process.pid]})
    if "disturb" in plan:
        initiator.disturb(plan["disturb"])
    if plan.get("driven"):
        be_driven(initiator)
    else:
        measure_all(initiator, plan["cells"])
    initiator.connection.send(("end", ()))
    initiator.process.join(5)
    initiator.process.kill()
    end(initiator, plan)


if __name__ == "__main__":
    main()
