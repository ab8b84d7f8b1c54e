#!/usr/bin/env python3
"""What a host's calls cost in instructions, allocations, doorbells, pinned memory and shared cache lines, against what it was: none may get worse.

    benchmark/ratchet.py                          build, count, compare with ratchet.json; exit status 1 where a figure is worse
    benchmark/ratchet.py --accept                 also record new figures, where none is worse
    benchmark/ratchet.py --accept --reason "..."  record those that are worse, too, and why
    benchmark/ratchet.py --only 'prepare'         figures whose name matches

What is counted does not depend on how busy the machine is, but on compiler and libfabric: figures are kept for each pair; Debian 12's
is the one that CI compares with. Flatness is a ratio of two counts of one run, and has a bound of its own in here. Needs valgrind.
"""

import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import sys

import simulated
import table

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "micro"))
import callgrind  # noqa: E402
import shared_lines  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "benchmark/ratchet.json"
PROGRAM = simulated.BUILD / "benchmark/path-cost"
PLUGINS = simulated.BUILD / "src/plugin"
PARTS = ("register", "prepare", "post")  # in the order in which path-cost calls them
OPTIONS = ["--toggle-collect=railyard::*measured_*", "--dump-after=*::measured_*"]
MOST_RUNS = 6


class Count:
    """One run of path-cost: what each part cost."""

    def __init__(self, arguments):
        self.arguments = [str(word) for word in arguments]
        with simulated.cluster("p5.48xl") as machine:
            output, costs = callgrind.parts([str(PROGRAM), "--plugins", str(PLUGINS), *self.arguments], OPTIONS, machine.environment)
        self.seen = json.loads(output)
        if len(costs) != len(PARTS):
            raise ValueError(f"path-cost {' '.join(self.arguments)}: callgrind has dumped {len(costs)} parts instead of {len(PARTS)}")
        ours = [sum(cost for name, cost in part.items() if name.endswith("/libplugin_RAILYARD.so")) for part in costs]
        self.instructions = dict(zip(PARTS, ours))

    def of(self, part):
        """Instructions of the plugin: for a registration, or for a descriptor of a transfer."""
        times = self.seen["calls"] * (1 if part == "register" else self.seen["descriptors"])
        return self.instructions[part] / times

    def allocations(self, part):
        """All, of so many calls."""
        return self.seen[f"{part}_allocations"]


class Counter:
    """Runs of path-cost by arguments, each made once."""

    def __init__(self):
        self.runs = {}
        self.of_lines = None

    def lines(self, kind):
        if self.of_lines is None:
            self.of_lines = shared_lines.of_release()
        return self.of_lines[kind].per_post()

    def count_ahead(self, wanted):
        """Makes runs that will be asked for, two at a time: what is counted does not depend on what runs beside it."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for arguments, run in zip(wanted, pool.map(Count, wanted)):
                self.runs.setdefault(arguments, []).append(run)

    def count(self, *arguments):
        if arguments not in self.runs:
            self.runs[arguments] = [Count(arguments)]
        return self.runs[arguments][0]

    def least(self, part, *arguments):
        """A poll too many costs instructions and comes by chance: runs until the two least agree to 0.5 %."""
        self.count(*arguments)
        runs = self.runs[arguments]
        while True:
            values = sorted(run.of(part) for run in runs)
            if len(values) > 1 and values[1] <= values[0] * 1.005 or len(values) == MOST_RUNS:
                return values[0]
            runs.append(Count(arguments))


class Figure:
    """One that is recorded: less is better. `tolerance` is the part by which it may be more."""

    def __init__(self, name, measure, tolerance, unit):
        self.name, self.measure, self.tolerance, self.unit = name, measure, tolerance, unit


def recorded_figures(counter):
    for rails in (1, 32):
        arguments = ("--rails", rails)
        where = f"{rails} rail{'s' if rails > 1 else ''}"
        for part in PARTS:
            of = "a registration" if part == "register" else "a descriptor of 64"
            yield Figure(f"{part}, {where}: instructions {of}", lambda part=part, of=arguments: counter.least(part, *of), 0.02,
                         "instructions")
            yield Figure(f"{part}, {where}: allocations of 16 calls",
                         lambda part=part, of=arguments: counter.count(*of).allocations(part), 0, "allocations")
    for rails, batch in ((1, 64), (4, 512)):
        yield Figure(f"4 KiB x {batch}, {rails} rail{'s' if rails > 1 else ''}: doorbells a descriptor",
                     lambda of=(rails, batch): simulated.doorbells(*of), 0, "doorbells")
    yield Figure("pinned control memory a rail", lambda: simulated.engine_cost()[1], 0, "KiB")
    for kind in shared_lines.KINDS:
        yield Figure(f"{kind}, 4 rails, two threads in turns: lines that one writes and the other touches, a post",
                     lambda kind=kind: counter.lines(kind), 0, "lines")


def flatness_rows():
    """Name, two lists of arguments, and the most that the second may cost more than the first, by part."""
    kib4 = ("--descriptors", 1000, "--size", 4096, "--calls", 1)
    one = ("--rails", 1)
    hundred = ("--descriptors", 100, "--calls", 10)
    return [
        ("32 rails / 1", kib4, ("--rails", 32, *kib4), {"prepare": 1.25, "post": 1.4}),
        ("100,000 descriptors / 100", hundred, ("--descriptors", 100_000, "--calls", 1), {"prepare": 1.1, "post": 1.1}),
        ("1000 peers / 1", one, ("--peers", 1000), dict.fromkeys(PARTS, 1.05)),
        # A registration looks for a place in a tree of them.
        ("100,000 regions / 1", one, ("--regions", 100_000), {"register": 1.25, "prepare": 1.05, "post": 1.05}),
    ]


def ratios(counter):
    for name, few, many, bounds in flatness_rows():
        for part, bound in bounds.items():
            yield (table.Bound(f"{part}, {name}: instructions", bound, False, ""),
                   lambda part=part, few=few, many=many: counter.count(*many).of(part) / counter.least(part, *few))


class Record:
    """ratchet.json: figures by compiler and libfabric."""

    def __init__(self, path, environment):
        self.path, self.environment = path, environment
        self.all = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        self.figures = self.all.setdefault(environment, {})

    def compare(self, figure, value):
        """(state, line): new, worse, better or same."""
        old = self.figures.get(figure.name)
        if old is None:
            return "new", f"not recorded for {self.environment}: {value:.6g} {figure.unit}"
        tolerance = old["tolerance"]
        change = f"{old['value']:.6g} -> {value:.6g} {figure.unit}"
        if value > old["value"] * (1 + tolerance):
            return "worse", f"{change}" + (f", more than {tolerance:.1%} above" if tolerance else "")
        if value < old["value"] * (1 - tolerance):
            return "better", f"{change}: tighten it with --accept"
        return "same", change

    def accept(self, figure, value, reason):
        kept = self.figures.get(figure.name, {"tolerance": figure.tolerance})
        self.figures[figure.name] = {"value": value, "tolerance": kept["tolerance"]} | ({"reason": reason} if reason else {})

    def write(self):
        self.path.write_text(json.dumps(self.all, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def judge(record, measured, accept, reason, gone=()):
    """Prints what became of each recorded figure, `gone` being names of those that nobody measures any more; the number of those that fail."""
    failed, changed = 0, []
    for name in gone:
        print(f"{'gone':6} {name}: recorded for {record.environment}, and not measured", flush=True)
        failed += not accept
    for figure, value in measured:
        state, line = record.compare(figure, value)
        print(f"{state:6} {figure.name}: {line}", flush=True)
        if state != "same":
            changed.append((figure, value, reason if state == "worse" else None))
        failed += state == "worse" and not (accept and reason) or state == "new" and not accept
    if failed:
        print(f"{failed} figures are worse, new or gone. Mend the code, or record them: benchmark/ratchet.py --accept, "
              "with --reason \"why it is worth it\" where one is worse")
    elif accept and (changed or gone):
        for figure, value, why in changed:
            record.accept(figure, value, why)
        for name in gone:
            del record.figures[name]
        record.write()
        print(f"recorded {len(changed)} in {record.path.name}" + (f", {len(gone)} taken out" if gone else ""))
    return failed


def judge_flatness(rows):
    failed = 0
    for bound, measure in rows:
        value = measure()
        failed += not bound.holds(value)
        print(f"{'flat' if bound.holds(value) else 'NOT FLAT':6} {bound.name}: {bound.shown(value)}, bound {bound.bound_text()}", flush=True)
    return failed


def chosen(counter, only):
    """Figures, and rows of flatness, whose name matches. Where there are none, nothing is right or wrong: that fails."""
    figures = [figure for figure in recorded_figures(counter) if re.search(only, figure.name)]
    rows = [(bound, measure) for bound, measure in ratios(counter) if re.search(only, bound.name)]
    if not figures and not rows:
        raise SystemExit(f"ratchet.py: --only {only!r} matches no figure's name")
    return figures, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accept", action="store_true", help="record what has changed")
    parser.add_argument("--reason", default="", help="why what is worse is accepted")
    parser.add_argument("--only", default="", help="figures whose name matches this regular expression")
    options = parser.parse_args()
    counter = Counter()
    figures, rows = chosen(counter, options.only)
    if not shutil.which("valgrind"):
        raise SystemExit("ratchet.py: valgrind is not installed: apt-get install valgrind")
    table.build()
    if not options.only:
        # The longest ones first; of those that `least` looks at, two each.
        few = dict.fromkeys([("--rails", 1), ("--rails", 32), *(row[1] for row in flatness_rows())])
        counter.count_ahead([row[2] for row in reversed(flatness_rows())] + 2 * list(few))
    seen = counter.count("--rails", 1).seen
    record = Record(RECORD, f"g++ {seen['compiler']}, libfabric {seen['libfabric']}")
    print(record.environment)
    measured = ((figure, figure.measure()) for figure in figures)
    gone = [] if options.only else sorted(record.figures.keys() - {figure.name for figure in figures})
    failed = judge(record, measured, options.accept, options.reason, gone)
    return 1 if failed + judge_flatness(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
