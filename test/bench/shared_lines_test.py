#!/usr/bin/env python3
"""benchmark/micro/shared_lines.py: what it makes of a trace.  shared_lines_test.py CASE"""
import io
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmark/micro"))
import shared_lines  # noqa: E402

CODE = (0x4000, 0x5000)
READ, WRITE = False, True


def trace(*rows):
    return io.BytesIO("".join(row + "\n" for row in rows).encode())


def lock(number):
    return f"--77--   SCHED[{number}]:  acquired lock (VG_(client_syscall)[async])"


def turn(thread):
    return f" S {shared_lines.TURNS[thread]:x},8"


def times(*seen):
    """How often each line crosses, of (thread, line, writes)."""
    found = shared_lines.crossings([(thread, 0x4000, line, line, writes) for thread, line, writes in seen])
    return {line: sum(takers.values()) for line, takers in found.items()}


def case_accesses():
    seen, turns = shared_lines.accesses(trace(
        turn(0), "I  00004010,4", " L 1000,8", "I  00006000,4", " S 1000,8",  # the last one is somebody else's code
        f" S {shared_lines.PAGE + 0x200:x},8", "I  00004020,4", f" L {shared_lines.PAGE + 0x200:x},8",  # the baton
        lock(3), turn(1), "I  00004030,4", " M 103c,8",
        lock(1), "I  00004040,4", " S 1000,8",  # neither of the two
        lock(2), turn(0), "I  00004050,4", " S 1080,4"), CODE)
    assert seen == [(0, 0x4010, 0x40, 0x40, READ), (1, 0x4030, 0x40, 0x41, WRITE), (0, 0x4050, 0x42, 0x42, WRITE)], seen
    assert turns == {0: 2, 1: 1}, turns


def case_crossings():
    assert not times((0, 1, WRITE), (0, 1, READ), (1, 2, WRITE), (1, 2, WRITE)), "lines of their own"
    assert not times((0, 1, READ), (1, 1, READ), (0, 1, READ)), "nobody writes"
    # Read by who has not written: each time that it was written since.
    assert times((0, 1, WRITE), (1, 1, READ), (1, 1, READ)) == {1: 1}
    assert times((0, 1, WRITE), (1, 1, READ), (0, 1, WRITE), (1, 1, READ)) == {1: 3}
    # Counters of both in one line.
    assert times((0, 1, WRITE), (1, 1, WRITE), (0, 1, WRITE), (0, 2, WRITE)) == {1: 2}
    assert times((0, 1, READ), (1, 1, READ), (0, 1, WRITE), (0, 1, WRITE)) == {1: 1}, "the other had a copy"


def case_often():
    """Neighbours by chance and looks now and then do not count."""
    count = shared_lines.Count("8 B", 100, {1: {(0, 0x4000): 60, (1, 0x4004): 90}, 2: {(1, 0x4000): 24}}, None)
    assert count.per_post() == 1.5, count.per_post()


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]]()
