"""Cases of the stock host test that drive its Python package: two agents in two processes, over loopback."""

import argparse
import faulthandler
import os
import pathlib
import statistics
import sys
import time
import traceback

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config
from stock_host_faults import case_deregistered, case_killed_peer, case_peer_that_comes_back, case_offered_once_more, case_registered_once_more, past_the_fabric
from stock_host_target import Remote, backend_params, make_agent, register, text

LIMIT_S = 110
TRANSFER_LIMIT_S = 30
SIZE = 16 << 20


class Pair:
    """The first process's agent with a buffer, connected to the second process."""

    def __init__(self, options, size=SIZE):
        self.options = options
        self.backend = options.backend
        self.remote = Remote("target", size, options, LIMIT_S)
        self.agent = make_agent("initiator", options)
        self.buffer, self.registration = register(self.agent, size, options)
        self.addresses = {"initiator": self.buffer.ctypes.data}
        metadata, self.addresses["target"], _ = self.remote.ask("describe")
        self.remote_metadata = metadata
        assert text(self.agent.add_remote_agent(metadata)) == "target"
        assert self.remote.ask("load", self.agent.get_agent_metadata()) == "initiator"
        self.random = numpy.random.default_rng(20)
        self.arrived = []
        if options.progress_thread == "off":
            self.remote.while_waiting = self.look

    def fill(self, offset, length):
        content = self.random.integers(0, 256, length, dtype=numpy.uint8)
        self.buffer[offset:offset + length] = content
        return content.tobytes()

    def prepare(self, operation, local, remote, message=b"", agent="target"):
        """`local` and `remote`: lists of (offset or address, length)."""
        base, remote_base = self.buffer.ctypes.data, self.addresses.get(agent, self.addresses["target"])
        mine = self.agent.get_xfer_descs([(base + at, length, 0) for at, length in local], "DRAM")
        theirs = self.agent.get_xfer_descs([(remote_base + at, length, 0) for at, length in remote], "DRAM")
        return self.agent.initialize_xfer(operation, mine, theirs, agent, message, backends=[self.backend])

    def finish(self, handle, message=b""):
        self.wait(handle, self.agent.transfer(handle, message))

    def wait(self, handle, state):
        limit = time.monotonic() + TRANSFER_LIMIT_S
        while state == "PROC":
            assert time.monotonic() < limit, "the transfer does not end"
            state = self.agent.check_xfer_state(handle)
        assert state == "DONE", state

    def run(self, operation, local, remote, message=b"", agent="target"):
        handle = self.prepare(operation, local, remote, message, agent)
        self.finish(handle, message)
        handle.release()

    def look(self):
        if self.agent is None:  # closed, and waiting for the other side to close
            return
        for sender, messages in self.agent.get_new_notifs().items():
            self.arrived += [(text(sender), message) for message in messages]

    def take(self, count):
        """Waits for `count` notifications of the first process."""
        limit = time.monotonic() + TRANSFER_LIMIT_S
        while len(self.arrived) < count:
            assert time.monotonic() < limit, f"{len(self.arrived)} of {count} notifications"
            self.look()
        taken, self.arrived = self.arrived, []
        return taken

    def close(self):
        self.agent.remove_remote_agent("target")
        self.agent.deregister_memory(self.registration)
        self.agent = None
        self.remote.close()


def refused(call, *arguments):
    """The name of the exception that the host raises for the call."""
    try:
        call(*arguments)
    except Exception as error:
        return type(error).__name__
    raise AssertionError(f"{call.__name__} took what it must refuse")


def case_write(pair):
    for length in (1, 8, 4096, 65537, 1 << 20, (5 << 20) + 3):
        content = pair.fill(0, length)
        pair.remote.begin("take_with_content", 7, length)
        pair.run("WRITE", [(0, length)], [(7, length)], b"w%d" % length)
        taken, seen = pair.remote.answer("take_with_content")
        assert [(who, what) for who, what, _ in taken] == [("initiator", b"w%d" % length)], taken
        assert seen == content, f"{length} bytes: the notification came before the data"


def case_write_without_notification(pair):
    content = pair.fill(0, 300000)
    pair.run("WRITE", [(0, 300000)], [(0, 300000)])
    assert pair.remote.ask("get", 0, 300000) == content


def told(name, label):
    """The sum of a figure with that label that the first process's plugin tells; None where it tells none."""
    path = pathlib.Path(os.environ["RAILYARD_STATS_FILE"].replace("%a", "initiator"))
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    figures = [int(line.split()[-1]) for line in lines if line.startswith(f'{name}{{agent="initiator",{label}')]
    return sum(figures) if figures else None


def case_way(pair):
    """Past the fabric where RAILYARD_LOCAL_RAIL lets it, and else not."""
    length = 200000  # below stripe_threshold: NICs carry what is larger themselves
    pair.fill(0, length)
    pair.run("WRITE", [(0, length)], [(0, length)])
    limit = time.monotonic() + TRANSFER_LIMIT_S
    while (told("railyard_peer_bytes_total", 'peer="target"') or 0) < length:
        assert time.monotonic() < limit, "the transfer is never told of"
        pair.look()
    on_host, moved = told("railyard_peer_on_host", 'peer="target"'), told("railyard_rail_bytes_total", 'rail="host"')
    if past_the_fabric():
        assert on_host == 1 and moved >= length, (on_host, moved)
    else:
        assert on_host == 0 and moved is None, (on_host, moved)


def case_read(pair):
    for length in (1, 4096, 65537, (5 << 20) + 3):
        content = numpy.random.default_rng(length).integers(0, 256, length, dtype=numpy.uint8).tobytes()
        pair.remote.ask("put", 11, content)
        pair.buffer[:length] = 0
        pair.run("READ", [(0, length)], [(11, length)], b"r")
        assert pair.buffer[:length].tobytes() == content
        assert [(who, what) for who, what, _ in pair.remote.ask("take", 1)] == [("initiator", b"r")]


def case_many_descriptors(pair):
    count, length = 1000, 1000
    content = pair.fill(0, count * length)
    order = numpy.random.default_rng(3).permutation(count)
    pair.run("WRITE", [(int(i) * length, length) for i in order], [(int(i) * length, length) for i in order])
    assert pair.remote.ask("get", 0, count * length) == content


def case_notifications(pair):
    messages = [os.urandom(size) for size in (1, 7, 4096, 70000, 1 << 20)]
    for message in messages:
        pair.remote.begin("take", 1)
        pair.agent.send_notif("target", message)
        taken = pair.remote.answer("take")
        assert [(who, what) for who, what, _ in taken] == [("initiator", message)], len(message)
    for message in messages:
        pair.remote.begin("take_with_content", 0, 64)
        content = pair.fill(0, 64)
        pair.run("WRITE", [(0, 64)], [(0, 64)], message)
        taken, seen = pair.remote.answer("take_with_content")
        assert taken[0][1] == message and seen == content, len(message)


def case_notifications_back(pair):
    messages = [b"answer %d" % i for i in range(100)]
    for message in messages:
        pair.remote.ask("send", "initiator", message)
    assert sorted(pair.take(100)) == sorted(("target", message) for message in messages)


def case_self(pair):
    content = pair.fill(0, 100001)
    pair.run("WRITE", [(0, 100001)], [(1 << 20, 100001)], b"to myself", "initiator")
    assert pair.buffer[1 << 20:(1 << 20) + 100001].tobytes() == content
    assert pair.take(1) == [("initiator", b"to myself")]
    pair.buffer[:100001] = 0
    pair.run("READ", [(0, 100001)], [(1 << 20, 100001)], b"", "initiator")
    assert pair.buffer[:100001].tobytes() == content


def case_repost(pair):
    handle = pair.prepare("WRITE", [(0, 20000)], [(100, 20000)], b"first")
    for turn in range(50):
        content = pair.fill(0, 20000)
        pair.remote.begin("take_with_content", 100, 20000)
        pair.finish(handle, b"turn %d" % turn)
        taken, seen = pair.remote.answer("take_with_content")
        assert [what for _, what, _ in taken] == [b"turn %d" % turn] and seen == content, turn
    handle.release()


def case_release_in_flight(pair):
    """Nothing of what was released lands on what is written to the same place later, over one rail of several."""
    large, small = 8 << 20, 64 << 10
    pair.fill(0, large)
    content = pair.fill(large, small)
    for turn in range(20):
        handle = pair.prepare("WRITE", [(0, large)], [(0, large)])
        place = large * (turn + 1) // 20 - small
        later = pair.prepare("WRITE", [(large, small)], [(place, small)])
        pair.agent.transfer(handle)
        handle.release()
        pair.finish(later)
        assert pair.remote.ask("get", place, small) == content, f"other bytes after release {turn}"
        later.release()


def case_plugin_params(pair):
    params = pair.agent.get_plugin_params(pair.backend)
    for name in ("provider", "devices", "rails", "rails_per_device", "stripe_threshold", "chunk_size",
                 "connect_timeout_ms", "log_level", "num_threads", "striping_threshold"):
        assert name in params, f"{name} is not among {sorted(params)}"
    assert pair.agent.get_plugin_mem_types(pair.backend) in (["DRAM"], ["DRAM_SEG"])
    assert pair.agent.get_backend_mem_types(pair.backend) == pair.agent.get_plugin_mem_types(pair.backend)


def case_bad_descriptors(pair):
    base, far = pair.buffer.ctypes.data, pair.addresses["target"]
    wrapping = (1 << 64) - 11

    def attempt(local, remote):
        mine = pair.agent.get_xfer_descs([local], "DRAM")
        theirs = pair.agent.get_xfer_descs([remote], "DRAM")
        pair.agent.initialize_xfer("WRITE", mine, theirs, "target", b"", backends=[pair.backend])

    for local, remote in (
            ((base + SIZE - 1, 2, 0), (far, 2, 0)), ((base, 2, 0), (far + SIZE - 1, 2, 0)),
            ((base + 20, wrapping, 0), (far + 20, wrapping, 0)), ((4096, 64, 0), (far, 64, 0)),
            ((base, 64, 0), (4096, 64, 0)), ((base, 64, 0), (far, 65, 0))):
        refused(attempt, local, remote)
    case_write_without_notification(pair)


def case_unknown_agent(pair):
    refused(pair.prepare, "WRITE", [(0, 8)], [(0, 8)], b"", "nobody")
    refused(pair.agent.send_notif, "nobody", b"hello")
    refused(pair.agent.make_connection, "nobody")
    pair.agent.make_connection("target")


def case_vram_refused(pair):
    region = [(pair.buffer.ctypes.data, 4096, 0, "")]
    refused(pair.agent.register_memory, region, "VRAM", [pair.backend])


def case_query_memory(pair):
    base = pair.buffer.ctypes.data
    answers = pair.agent.query_memory([(base, 100, 0, ""), (4096, 100, 0, "")], pair.backend, "DRAM")
    assert answers[0]["type"] == "dram" and answers[1] is None, answers


def case_estimate(pair):
    handle = pair.prepare("WRITE", [(0, 4096)], [(0, 4096)])
    for _ in range(20):
        pair.finish(handle)
    duration, margin, method = pair.agent.estimate_xfer_cost(handle)
    handle.release()
    assert duration >= 0 and margin >= 0 and method in ("ANALYTICAL_BACKEND", "UNKNOWN"), (duration, margin, method)


def plugin_parts(metadata):
    """Where the plugin's own bytes lie in the host's metadata of an agent with one region: connection info, region.

    The host checks neither of them, and crashes on some damage to the rest, so only these are of use to the test.
    """
    connection = metadata.index(b"|c", metadata.index(b"|Conns")) + 2
    length = int.from_bytes(metadata[connection:connection + 8], "little")
    count = metadata.index(b"|n\x08", connection + 8 + length) + 2
    region = count + 8 + 8 + 1 + 8 + 24  # the count's length and value, a bar, the descriptor's length, the descriptor
    return [range(connection + 8, connection + 8 + length), range(region, len(metadata) - 1)]


def case_damaged_metadata(pair):
    good = pair.remote_metadata
    pair.agent.remove_remote_agent("target")
    for part in plugin_parts(good):
        for position in part[::max(1, len(part) // 100)]:
            damaged = bytearray(good)
            damaged[position] ^= 0x10
            refused(pair.agent.add_remote_agent, bytes(damaged))
    for length in range(0, len(good), max(1, len(good) // 20)):
        refused(pair.agent.add_remote_agent, good[:length])
    assert text(pair.agent.add_remote_agent(good)) == "target"
    case_write_without_notification(pair)


def case_bad_params(pair):
    other = nixl_agent("other", nixl_agent_config(backends=[]))
    unknown = {"num_workers": "4"}  # of another backend: under our name it is refused, under that one's taken
    for bad in [{"rails": "many"}] + ([unknown] if pair.backend == "RAILYARD" else []):
        refused(other.create_backend, pair.backend, bad)
    other.create_backend(pair.backend, backend_params(pair.options) | ({} if pair.backend == "RAILYARD" else unknown))


def figure_latency(pair):
    """4 KiB WRITE with notification: until the host says done, and until the target's host has the notification."""
    handle = pair.prepare("WRITE", [(0, 4096)], [(0, 4096)], b"n")
    done, seen = [], []
    for turn in range(600):
        pair.remote.begin("take", 1)
        time.sleep(0.0005)  # lets the target begin to look, so that only the transfer is measured
        begin = time.monotonic_ns()
        pair.finish(handle, b"n")
        done.append(time.monotonic_ns() - begin)
        seen.append(pair.remote.answer("take")[0][2] - begin)
    handle.release()
    for name, values in (("done", done[100:]), ("notified", seen[100:])):
        values = sorted(value / 1000 for value in values)
        print(f"figure 4 KiB WRITE with notification, post to {name}: p50 {statistics.median(values):.1f} us, "
              f"p99 {values[int(len(values) * 0.99)]:.1f} us")


def figure_post(pair):
    count, length = 18880, 4096
    rows = numpy.zeros((count, 3), dtype=numpy.uint64)
    rows[:, 1] = length
    order = numpy.random.default_rng(5).permutation(count).astype(numpy.uint64) * numpy.uint64(length)
    rows[:, 0] = order + numpy.uint64(pair.buffer.ctypes.data)
    mine = pair.agent.get_xfer_descs(rows, "DRAM")
    rows = rows.copy()
    rows[:, 0] = order + numpy.uint64(pair.addresses["target"])
    theirs = pair.agent.get_xfer_descs(rows, "DRAM")
    handle = pair.agent.initialize_xfer("WRITE", mine, theirs, "target", b"", backends=[pair.backend])
    content = pair.fill(0, count * length)
    posts, totals = [], []
    for _ in range(10):
        begin = time.monotonic_ns()
        state = pair.agent.transfer(handle)
        posts.append((time.monotonic_ns() - begin) / 1e6)
        while state == "PROC":
            assert time.monotonic_ns() - begin < TRANSFER_LIMIT_S * 10**9, "the transfer does not end"
            state = pair.agent.check_xfer_state(handle)
        assert state == "DONE", state
        totals.append((time.monotonic_ns() - begin) / 1e6)
    handle.release()
    assert pair.remote.ask("get", 0, count * length) == content
    print(f"figure post of {count} descriptors of 4 KiB: median {statistics.median(posts):.2f} ms, worst "
          f"{max(posts):.2f} ms; whole transfer {statistics.median(totals):.1f} ms")


# Of what is deregistered under it shm asks nobody (docs/gotchas.md).
LOCAL_CASES = [case_deregistered] if past_the_fabric() else []
# After case_vram_refused nobody can load the agent's metadata (docs/gotchas.md): what needs that comes before.
CASES = [case_write, case_write_without_notification, case_way, case_read, case_many_descriptors, case_notifications,
         case_notifications_back, case_self, case_repost, case_release_in_flight, case_registered_once_more, case_killed_peer, *LOCAL_CASES,
         case_plugin_params, case_bad_descriptors, case_unknown_agent, case_vram_refused, case_query_memory,
         case_estimate, case_bad_params, case_damaged_metadata]
FIGURES = [figure_latency, figure_post]


def cases_of(options):
    # Elsewhere a peer that is only stopped is written to all the same, or its transfers wait for it. It takes a while.
    silence = options.provider == "tcp" and options.progress_thread == "on" and options.backend == "RAILYARD"
    # NICs draw the keys anew, and over efa-direct who is refused asks for them: a thread answers.
    asks = options.provider == "efa-direct" and options.progress_thread == "on"
    again = [case_offered_once_more] if asks or not options.provider.startswith("efa") else []
    return ([case_peer_that_comes_back] if silence and not past_the_fabric() else []) + again + CASES


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--provider", default="tcp")
    parser.add_argument("--progress-thread", choices=["on", "off"], default="on")
    parser.add_argument("--backend", default="RAILYARD")
    parser.add_argument("--rails", type=int, default=1)
    parser.add_argument("--figures", action="store_true")
    parser.add_argument("--case", default="")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    name = f"{options.backend} {options.provider} rails {options.rails} progress thread {options.progress_thread}"
    failed = 0
    pair = Pair(options, 80 << 20 if options.figures else SIZE)
    for case in FIGURES if options.figures else cases_of(options):
        if options.case not in case.__name__:
            continue
        try:
            case(pair)
            print(f"ok {case.__name__} ({name})", flush=True)
        except Exception as error:
            failed += 1
            traceback.print_exc()
            print(f"FAILED {case.__name__} ({name}): {error!r}", flush=True)
            break  # the pair may be out of step now
    if failed == 0:
        pair.close()
        print(f"ok close ({name})", flush=True)
    faulthandler.cancel_dump_traceback_later()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
