"""Cache lines that two posting threads take from each other, counted in the trace of memory of valgrind's lackey.

    benchmark/micro/shared_lines.py    what there are, with the functions that take them; of build/release, as benchmark/ratchet.py leaves it
"""

import collections
import io
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import simulated  # noqa: E402

KINDS = ("8 B", "4 KiB x 64")  # of posts, as in shared_lines.cpp
LINE = 64
# Crossings a post of a line that counts. What looks at others now and then is below, and so are two handles that the heap has made
# neighbours: how many there are depends on the lengths of paths.
OFTEN = 0.25
# As in shared_lines.cpp: the page of marks. Stores there say where what counts begins and ends, and whose turn it is.
PAGE = 0x1000000000
BEGIN, END, TURNS = PAGE, PAGE + LINE, (PAGE + 2 * LINE, PAGE + 3 * LINE)
LOCK = re.compile(rb"SCHED\[(\d+)\]:\s+acquired lock")
OPTIONS = ["--quiet", "--tool=lackey", "--basic-counts=no", "--trace-mem=yes",
           "--trace-sched=yes"]  # of valgrind itself: which thread has its lock, and so runs


def traced(command, environment=None, timeout=600):
    """Runs `command` under lackey: its standard output as JSON, and the trace's rows between each two marks. What comes before the first,
    some 40 million rows, is not kept."""
    begin, end = b" S %x,8\n" % BEGIN, b" S %x,8\n" % END
    reader, writer = os.pipe()
    with subprocess.Popen(["valgrind", *OPTIONS, f"--log-fd={writer}", *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          pass_fds=[writer], env={**os.environ, **(environment or {})}) as process:
        os.close(writer)
        kept, tail = [], b""
        with os.fdopen(reader, "rb", buffering=0) as trace:
            while piece := trace.read(1 << 20):
                if kept:
                    kept.append(piece)
                    continue
                tail = tail[-len(begin):] + piece
                if (at := tail.find(begin)) >= 0:
                    kept.append(tail[at:])
        output = process.stdout.read()
        if process.wait(timeout) != 0:
            raise subprocess.CalledProcessError(process.returncode, command)
    parts = [part.partition(end) for part in b"".join(kept).split(begin)[1:]]
    if not all(found for _, found, _ in parts):
        raise ValueError("the trace has no end of what is to be counted")
    return json.loads(output), [io.BytesIO(rows) for rows, _, _ in parts]


def accesses(trace, code):
    """(thread, instruction, first line, last line, writes) of each access to memory that an instruction in `code` (first address and the
    one behind the last) makes; turns that each thread has had. Threads are 0 and 1, others do not count."""
    names, seen = {}, []  # valgrind's numbers of the two
    turns = collections.Counter()
    running, instruction = None, 0  # until the first hand-over the trace does not say who it is, but the first turn's mark does
    for row in trace:
        kind = row[:2]
        if kind == b"I ":
            instruction = int(row[3:row.index(b",")], 16)
        elif kind in (b" L", b" S", b" M"):
            address, size = row[3:].split(b",")
            address = int(address, 16)
            if address in TURNS:
                names[running] = TURNS.index(address)
                turns[names[running]] += 1
            elif code[0] <= instruction < code[1] and not PAGE <= address < PAGE + 4096:
                seen.append((running, instruction, address // LINE, (address + int(size) - 1) // LINE, kind != b" L"))
        elif match := LOCK.search(row):
            running = int(match[1])
    return [(names[number], *rest) for number, *rest in seen if number in names], turns


def crossings(seen):
    """{line: Counter of (thread, instruction) that took it from the other thread}: by touching what that one had written since, or by
    writing what it had touched since."""
    holders, written = {}, set()  # line: the threads that have it; those that one of them has written
    found = collections.defaultdict(collections.Counter)
    for thread, instruction, first, last, writes in seen:
        for line in range(first, last + 1):
            had = holders.setdefault(line, {thread})
            if writes:
                if had != {thread}:
                    found[line][thread, instruction] += 1
                holders[line] = {thread}
                written.add(line)
            elif thread not in had:
                if line in written:
                    found[line][thread, instruction] += 1
                    written.discard(line)
                had.add(thread)
    return found


class Count:
    """Of one kind of post: lines a post, and where."""

    def __init__(self, name, posts, lines, code):
        self.name, self.posts, self.lines, self.code = name, posts, lines, code

    def per_post(self):
        """Of the lines that cross often."""
        each = (sum(takers.values()) / self.posts for takers in self.lines.values())
        return sum(times for times in each if times >= OFTEN)

    def functions(self, addresses):
        """Names by address."""
        asked = [hex(address - self.code["base"]) for address in addresses]
        done = subprocess.run(["addr2line", "-f", "-C", "-e", self.code["object"], *asked], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True, timeout=60, check=True)
        return dict(zip(addresses, done.stdout.splitlines()[::2]))

    def report(self, most=20):
        """The lines that cross most often, and what takes them."""
        names = self.functions(sorted({instruction for line in self.lines.values() for _, instruction in line}))
        for line, takers in sorted(self.lines.items(), key=lambda item: -sum(item[1].values()))[:most]:
            print(f"{line * LINE:#x}: {sum(takers.values()) / self.posts:.3f} a post")
            for (thread, instruction), times in takers.most_common(4):
                print(f"    thread {thread}, {times} times: {names[instruction][:150]}")


def count(program, plugins, environment):
    """A Count by kind of post, of one run."""
    output, traces = traced([str(program), "--plugins", str(plugins)], environment)
    counts, code = {}, output["code"]
    for kind, trace in zip(output["kinds"], traces, strict=True):
        seen, turns = accesses(trace, (code["begin"], code["end"]))
        if turns != {0: kind["turns"], 1: kind["turns"]} or not seen:
            raise ValueError(f"{kind}: the trace has {dict(turns)}, and {len(seen)} accesses in them")
        counts[kind["name"]] = Count(kind["name"], 2 * kind["turns"], crossings(seen), code)
    return counts


def of_release():
    with simulated.cluster("p6-b200.48xl") as machine:  # the least to trace of those that have efa-direct
        return count(simulated.BUILD / "benchmark/shared-lines", simulated.BUILD / "src/plugin", machine.environment)


if __name__ == "__main__":
    for one in of_release().values():
        one.report()
        print(f"{one.name}: {one.per_post():.6g} lines a post, of those that cross {OFTEN} times or more; {one.posts} posts")
