"""Two pairs of processes of the stock host that live at the same time and are measured slice by slice, in turns: what changes on the
machine meanwhile meets both. The pair whose turn it is not is stopped, with all its threads."""

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time

import turns

ANSWER_LIMIT_S = 120


class Failed(Exception):
    """The pair is of no more use; the text says why."""


class Pair:
    """Two processes (one_pass.py), driven line by line. It runs from its making, and within take_turn(). `errors`: a file that their
    standard error goes to."""

    def __init__(self, python, plugins, plan, environment, errors=None):
        command, clean = turns.pass_of_host(python, plugins, plan | {"driven": True}, environment)
        self.running = subprocess.Popen(command, env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.unread, self.processes, self.handles = b"", [], []
        try:
            self.processes = self.answer()["processes"]
            self.handles = [os.pidfd_open(process) for process in self.processes]
        except BaseException:
            self.end()
            raise
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        """By handle: a number may be another process's once they have ended."""
        for handle in self.handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)

    def take_turn(self, command):
        """Its answer; Failed where there is none, or an error."""
        self.signal(signal.SIGCONT)
        try:
            self.running.stdin.write(json.dumps(command).encode() + b"\n")
            self.running.stdin.flush()
            return self.answer()
        except BrokenPipeError as gone:
            raise Failed("its process has ended") from gone
        finally:
            self.signal(signal.SIGSTOP)

    def answer(self):
        limit = time.monotonic() + ANSWER_LIMIT_S
        output = self.running.stdout.fileno()
        while b"\n" not in self.unread:
            over = self.running.poll() is not None  # its target may live, and hold the pipe open
            ready, _, _ = select.select([output], [], [], 0 if over else 0.5)
            more = os.read(output, 65536) if ready else b""
            if not more and (ready or over):
                raise Failed("its process has ended")
            if time.monotonic() > limit:
                raise Failed(f"no answer after {ANSWER_LIMIT_S} s")
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def end(self):
        self.signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            self.running.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.running.wait(10)
        self.running.kill()
        self.running.wait()
        self.running.stdout.close()
        self.signal(signal.SIGKILL)  # the target, where its initiator could not end it
        while self.handles:
            os.close(self.handles.pop())
        turns.remove_shared_memory(self.processes)


class Side:
    """One of the two, with a new pair of processes where the last one has failed."""

    def __init__(self, name, make):
        self.name, self.make, self.pair = name, make, None
        self.times, self.errors = {}, {}  # microseconds of a transfer, and reasons, by cell

    def ask(self, cell, command):
        """None where it fails, which is noted."""
        try:
            self.pair = self.pair or self.make()
            return self.pair.take_turn(command)
        except Failed as why:
            print(f"{self.name}, {cell['name']}: {why}", file=sys.stderr)
            self.errors[cell["name"]] = str(why)
            self.end()
            return None

    def end(self):
        if self.pair:
            self.pair.end()
        self.pair = None


def measure_cell(sides, cell, count, seconds):
    """`count` slices of each side, whose order changes with each; a side that has failed is left out from there on."""
    begun = [side for side in sides if side.ask(cell, {"begin": cell})]
    found = {side.name: [] for side in begun}
    for number in range(count):
        for side in begun if number % 2 == 0 else begun[::-1]:
            if cell["name"] in side.errors:
                continue
            if answer := side.ask(cell, {"slice": seconds / count}):
                found[side.name].append(answer["us"])
    for side in begun:
        if cell["name"] not in side.errors and side.ask(cell, {"finish": True}):
            side.times[cell["name"]] = statistics.median(found[side.name])


def measure(cells, makers, count, seconds):
    """Of each side its times and errors by cell, as turns.Turns wants them. `makers`: (name, what makes its Pair), in the order of the
    first slices. A cell and side takes `seconds`, in `count` slices."""
    sides = [Side(name, make) for name, make in makers]
    try:
        for cell in cells:
            measure_cell(sides, cell, count, seconds)
    finally:
        for side in sides:
            side.end()
    return {side.name: (side.times, side.errors) for side in sides}
