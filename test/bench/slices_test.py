#!/usr/bin/env python3
"""benchmark/side_by_side/slices.py: whose turn it is, what becomes of the others meanwhile, and of a pair that fails.

    slices_test.py CASE
"""
import contextlib
import io
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark/side_by_side"))
import slices  # noqa: E402

CELL = {"name": "a"}
# In the host's place: answers a slice with its length in us, a begin of the cell "bad" with an error, of "mute" not at all, and ends at
# "gone".
HOST = """#!/usr/bin/env python3
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "100"], stdin=subprocess.DEVNULL)
print(json.dumps({"processes": [os.getpid(), child.pid]}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    name = command.get("begin", {}).get("name")
    if name == "gone":
        sys.exit()
    if name == "mute":
        continue
    answer = {"error": "as was asked"} if name == "bad" else {"us": command.get("slice", 0) * 1e6}
    print(json.dumps(answer), flush=True)
child.kill()
child.wait()
"""


@contextlib.contextmanager
def host():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "python"
        path.write_text(HOST, encoding="utf-8")
        path.chmod(0o755)
        yield path


def make_pair(path):
    return slices.Pair(path, "/nowhere", {"backend": "RAILYARD"}, {})


def states(pair):
    """Of its processes, as /proc has them: T is stopped; one that is gone is left out."""
    found = ""
    for process in pair.processes:
        with contextlib.suppress(FileNotFoundError):
            found += pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    return found


def wait_for(condition):
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit, "not within 10 s"
        time.sleep(0.002)


def case_turns():
    """Stopped but in its turn, both processes; and gone at the end."""
    with host() as path:
        pair = make_pair(path)
        try:
            wait_for(lambda: states(pair) == "TT")
            for length in (0.002, 0.003):
                assert pair.take_turn({"slice": length}) == {"us": length * 1e6}
                wait_for(lambda: states(pair) == "TT")
        finally:
            pair.end()
        wait_for(lambda: states(pair).strip("Z") == "")  # who waits for the child is not us


def expect_failure(pair, name, said):
    try:
        pair.take_turn({"begin": {"name": name}})
    except slices.Failed as why:
        assert said in str(why), why
        return
    raise AssertionError(f"{name} is no failure")


def case_failures():
    """An error, an end and silence are said as such, and what was stopped goes all the same."""
    for name, said in (("bad", "as was asked"), ("gone", "its process has ended"), ("mute", "no answer after 5 s")):
        with host() as path:
            pair = make_pair(path)
            slices.ANSWER_LIMIT_S = 5
            expect_failure(pair, name, said)
            if name == "gone":
                expect_failure(pair, name, said)  # nobody reads the command either
            pair.end()
            wait_for(lambda: states(pair).strip("Z") == "")
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(slices.Failed):
        path = pathlib.Path(folder) / "python"
        path.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        path.chmod(0o755)
        make_pair(path)
        raise AssertionError("a host that ends at once is no pair")


class FakePair:
    """Answers from a list; the word "fail" is a failure."""

    asked = []

    def __init__(self, name, times):
        self.name, self.times = name, times

    def take_turn(self, command):
        FakePair.asked.append(self.name)
        if "slice" not in command:
            return {"done": True}
        us = self.times.pop(0)
        if us == "fail":
            raise slices.Failed("of old age")
        return {"us": us}

    def end(self):
        FakePair.asked.append(f"end {self.name}")


def case_order():
    """Slices of both sides, whose order changes with each; medians. A side that fails is left out, and is new at the next cell."""
    FakePair.asked.clear()
    times = {"ours": [3.0, 1.0, 2.0, "fail"], "theirs": [6.0, 4.0, 5.0, 7.0, 8.0, 9.0]}
    makers = [(name, lambda name=name: FakePair(name, times[name])) for name in ("ours", "theirs")]
    with contextlib.redirect_stderr(io.StringIO()) as said:
        found = slices.measure([CELL, {"name": "b"}], makers, 3, 0.3)
    assert found == {"ours": ({"a": 2.0}, {"b": "of old age"}), "theirs": ({"a": 5.0, "b": 8.0}, {})}, found
    first = ["ours", "theirs"] + ["ours", "theirs", "theirs", "ours", "ours", "theirs"] + ["ours", "theirs"]
    assert FakePair.asked == first + ["ours", "theirs", "ours", "end ours"] + ["theirs"] * 4 + ["end theirs"], FakePair.asked
    assert "ours, b: of old age" in said.getvalue(), said.getvalue()
    times["ours"] = [1.0, "fail", 2.0, 2.0]
    FakePair.asked.clear()
    with contextlib.redirect_stderr(io.StringIO()):
        found = slices.measure([CELL, CELL | {"name": "b"}], makers[:1], 2, 0.3)
    assert found == {"ours": ({"b": 2.0}, {"a": "of old age"})} and FakePair.asked.count("end ours") == 2, (found, FakePair.asked)


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]]()
