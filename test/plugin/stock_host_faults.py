"""Cases of the stock host test in which the other process, or its memory, goes."""

import os
import pathlib
import signal
import time

import numpy

from stock_host_target import Remote, text

REMOTE_LIMIT_S = 100
END_LIMIT_S = 15  # peer_timeout_ms is 5 s, where nobody tells of the death; the machine may be slow
LENGTH = 8 << 20


def past_the_fabric():
    """Whether processes of one host write to each other by the kernel."""
    return os.environ.get("RAILYARD_LOCAL_RAIL") != "off"


class Victim:
    """A process of its own whose agent the pair's first process knows."""

    def __init__(self, pair):
        self.pair = pair
        self.remote = Remote("victim", LENGTH, pair.options, REMOTE_LIMIT_S)
        self.remote.while_waiting = pair.remote.while_waiting
        self.metadata, pair.addresses["victim"], _ = self.remote.ask("describe")
        self.load()
        assert self.remote.ask("load", pair.agent.get_agent_metadata()) == "initiator"

    def load(self):
        assert text(self.pair.agent.add_remote_agent(self.metadata)) == "victim"

    def write(self):
        """Shows that transfers to it work."""
        content = self.pair.fill(0, LENGTH)
        self.pair.run("WRITE", [(0, LENGTH)], [(0, LENGTH)], agent="victim")
        assert self.remote.ask("get", 0, LENGTH) == content

    def stop(self):
        os.kill(self.remote.process.pid, signal.SIGSTOP)
        os.waitpid(self.remote.process.pid, os.WUNTRACED)

    def go_on(self):
        os.kill(self.remote.process.pid, signal.SIGCONT)

    def kill(self):
        self.remote.process.kill()
        self.remote.process.join()

    def clear(self):
        self.kill()
        for left in pathlib.Path("/dev/shm").glob(f"{self.remote.process.pid}[-:]*"):
            left.unlink(missing_ok=True)  # what shm leaves behind


def outcome(call, *arguments):
    """The state that the host returns for the call, or the name of the exception that it raises."""
    try:
        return call(*arguments)
    except Exception as error:
        return type(error).__name__


def end_of(pair, handle, state, begin):
    """How the transfer ends, and how many seconds after `begin`; one that had ended before its peer did is posted again."""
    while state in ("PROC", "DONE"):
        assert time.monotonic() - begin < END_LIMIT_S, f"still {state} after {END_LIMIT_S} s"
        state = outcome(pair.agent.check_xfer_state if state == "PROC" else pair.agent.transfer, handle)
    return state, time.monotonic() - begin


def kill_under_transfers(pair, victim, stopped):
    victim.write()
    doomed = pair.prepare("WRITE", [(0, LENGTH)], [(0, LENGTH)], agent="victim")
    content = pair.fill(LENGTH, 1 << 20)
    healthy = pair.prepare("WRITE", [(LENGTH, 1 << 20)], [(0, 1 << 20)])
    if stopped:
        victim.stop()
    state = pair.agent.transfer(doomed)
    beside = pair.agent.transfer(healthy)
    if stopped and pair.options.provider == "tcp" and not past_the_fabric():
        assert state == "PROC", state
    killed = time.monotonic()
    victim.kill()
    state, seconds = end_of(pair, doomed, state, killed)
    print(f"a transfer to a killed peer: {state} after {seconds:.2f} s", flush=True)
    assert state == "nixlRemoteDisconnectError", state
    pair.wait(healthy, beside)
    assert pair.remote.ask("get", 0, 1 << 20) == content
    state, _ = end_of(pair, doomed, outcome(pair.agent.transfer, doomed), time.monotonic())
    assert state == "nixlRemoteDisconnectError", f"posted again: {state}"
    doomed.release()
    healthy.release()
    content = pair.fill(0, LENGTH)
    pair.run("WRITE", [(0, LENGTH)], [(0, LENGTH)])
    assert pair.remote.ask("get", 0, LENGTH) == content
    pair.agent.remove_remote_agent("victim")


def case_killed_peer(pair):
    """Once with the transfer certainly under way, where the provider needs the target for it, and once as it comes.

    Each victim has the name of the one before it, and so has the last, which lives.
    """
    for stopped in (True, False):
        victim = Victim(pair)
        try:
            kill_under_transfers(pair, victim, stopped)
        finally:
            victim.clear()
    again = Victim(pair)
    again.write()
    pair.agent.remove_remote_agent("victim")
    again.remote.close()


def lose(pair, victim):
    """Stops the victim under two transfers, which end; returns the first."""
    victim.write()
    handles = [pair.prepare("WRITE", [(0, LENGTH)], [(0, LENGTH)], agent="victim") for _ in range(2)]
    victim.stop()
    states = [pair.agent.transfer(handle) for handle in handles]
    begin = time.monotonic()
    for handle, state in zip(handles, states):
        state, seconds = end_of(pair, handle, state, begin)
        assert state == "nixlRemoteDisconnectError", state
    print(f"transfers to a silent peer: {state} after {seconds:.2f} s", flush=True)
    handles[1].release()
    return handles[0]


def case_peer_that_comes_back(pair):
    """The same process after a silence: by the handles of before, and removed and loaded once more, as frameworks do."""
    victim = Victim(pair)
    try:
        handle = lose(pair, victim)
        content = pair.fill(0, LENGTH)
        victim.go_on()
        begin = time.monotonic()
        while (state := outcome(pair.agent.transfer, handle)) == "nixlRemoteDisconnectError":
            assert time.monotonic() < begin + END_LIMIT_S, "it is there again, and posts are refused"
            time.sleep(0.01)
        pair.wait(handle, state)
        print(f"its handle works again after {time.monotonic() - begin:.2f} s", flush=True)
        assert victim.remote.ask("get", 0, LENGTH) == content
        handle.release()

        lose(pair, victim).release()
        pair.agent.remove_remote_agent("victim")
        victim.load()
        content = pair.fill(0, LENGTH)
        handle = pair.prepare("WRITE", [(0, LENGTH)], [(0, LENGTH)], agent="victim")
        state = pair.agent.transfer(handle)
        assert state == "PROC", f"nobody is there yet: {state}"
        victim.go_on()
        pair.wait(handle, state)
        assert victim.remote.ask("get", 0, LENGTH) == content
        handle.release()
        pair.agent.remove_remote_agent("victim")
        victim.remote.close()
    finally:
        victim.clear()


def case_deregistered(pair):
    """What the other process has deregistered is neither written nor read any more; all else goes on."""
    victim = Victim(pair)
    try:
        victim.write()
        before = victim.remote.ask("get", 0, LENGTH)
        handles = [pair.prepare(operation, [(0, LENGTH)], [(0, LENGTH)], agent="victim") for operation in ("WRITE", "READ")]
        victim.remote.ask("deregister")
        pair.fill(0, LENGTH)
        for handle in handles:
            state, _ = end_of(pair, handle, outcome(pair.agent.transfer, handle), time.monotonic())
            assert state == "nixlBackendError", state
            handle.release()
        assert victim.remote.ask("get", 0, LENGTH) == before, "written to after its deregistration"
        content = pair.fill(0, LENGTH)
        pair.run("WRITE", [(0, LENGTH)], [(0, LENGTH)])
        assert pair.remote.ask("get", 0, LENGTH) == content
        pair.agent.remove_remote_agent("victim")
        victim.remote.close()
    finally:
        victim.clear()


def case_offered_once_more(pair):
    """The other side registers its memory again: NIXL takes no other description of it while it knows the one before, and goes on with that."""
    mine = pair.agent.get_xfer_descs([(pair.addresses["initiator"], 4096, 0)], "DRAM")
    theirs = pair.agent.get_xfer_descs([(pair.addresses["target"], 4096, 0)], "DRAM")
    handle = pair.agent.initialize_xfer("WRITE", mine, theirs, "target", b"", backends=[pair.backend])
    for turn in range(4):
        # While NICs know the older one it is described anew.
        at_once = turn % 2 == 0 and not pair.options.provider.startswith("efa")
        pair.agent.add_remote_agent(pair.remote.ask("register_anew", at_once))
        content = pair.fill(0, 4096)
        pair.finish(handle)
        assert pair.remote.ask("get", 0, 4096) == content, turn
        content = pair.fill(0, LENGTH)
        pair.run("WRITE", [(0, LENGTH)], [(0, LENGTH)])
        assert pair.remote.ask("get", 0, LENGTH) == content, turn
    handle.release()


def case_registered_once_more(pair):
    """As by programs that register for each operation: the registration that a handle was made with goes, and another one is there."""
    memory = numpy.zeros(4096, dtype=numpy.uint8)
    region = [(memory.ctypes.data, memory.size, 0, "")]
    registered = pair.agent.register_memory(region, "DRAM", [pair.backend])
    mine = pair.agent.get_xfer_descs([(memory.ctypes.data, memory.size, 0)], "DRAM")
    theirs = pair.agent.get_xfer_descs([(pair.addresses["target"], memory.size, 0)], "DRAM")
    handle = pair.agent.initialize_xfer("WRITE", mine, theirs, "target", b"", backends=[pair.backend])
    for turn in range(3):
        again = pair.agent.register_memory(region, "DRAM", [pair.backend])
        pair.agent.deregister_memory(registered, [pair.backend])
        registered = again
        memory[:] = turn + 1
        pair.finish(handle)
        assert pair.remote.ask("get", 0, memory.size) == memory.tobytes(), turn
    pair.agent.deregister_memory(registered, [pair.backend])
    assert outcome(pair.agent.transfer, handle) == "nixlInvalidParamError"
    handle.release()
