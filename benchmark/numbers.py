#!/usr/bin/env python3
"""Measures the figures that docs/benchmarks.md promises and prints them as rows of its table.

    benchmark/numbers.py            build, measure, print; exit status 1 if a figure misses its bound
    benchmark/numbers.py --write    also put date, machine and rows into docs/benchmarks.md
    benchmark/numbers.py --quick    short slices, to see that it works; the figures mean little
    benchmark/numbers.py --only "doorbells|instructions|pinned|creation"
                                    what can be counted, on a busy machine too; CI fails on it

Needs a quiet machine: the ratios come from one run each, ours and the plain loop in turns, but both share the cores.
"""

import pathlib
import subprocess
import sys

import flows
import simulated
import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "build/release/bin/railyard-bench"
MICRO = ROOT / "build/release/benchmark"
PAGE = ROOT / "docs/benchmarks.md"


class SimulatedFigure(table.Bound):
    """A figure over the simulated EFA machine: a function that measures it."""

    def __init__(self, name, measure, bound, at_least, unit):
        super().__init__(name, bound, at_least, unit)
        self.function = measure

    def command(self):
        return f"numbers.py --only '{self.name}'"

    def measure(self):
        try:
            return {}, self.function()
        except (subprocess.SubprocessError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return {}, None


def bench(*figure):
    """Of one run of railyard-bench."""
    return table.ProgramFigure(BENCH, *figure, unseen=("--json", "-"))


def first(key):
    return lambda document: document["results"][0][key]


def inverse_ratio(document):
    return 1 / document["results"][0]["ratio_raw"]


def idle_percent(document):
    return max(document["idle"]["initiator_cpu_percent"], document["idle"]["target_cpu_percent"])


def figures(quick):
    seconds = "0.5" if quick else "5"
    timed = ["--raw", "--seconds", seconds, "--slices", "5" if quick else "15"]
    rows = []
    for provider in ("tcp", "shm"):
        for op in ("write", "read"):
            common = ["--provider", provider, "--op", op, *timed]
            rows += [
                bench(f"{provider}, {op}, 1 MiB: bandwidth, ours / raw", ["--sizes", "1M", *common],
                      first("ratio_raw"), 0.99, True),
                bench(f"{provider}, {op}, 64 KiB: bandwidth, ours / raw", ["--sizes", "64K", *common],
                      first("ratio_raw"), 0.97, True),
                bench(f"{provider}, {op}, 4 KiB, batch 64: bandwidth, ours / raw", ["--sizes", "4K", "--batch", "64", *common],
                      first("ratio_raw"), 0.90, True),
                bench(f"{provider}, {op}, 8 B, batch 64: time per op, ours / raw",
                      ["--sizes", "8", "--batch", "64", *common], inverse_ratio, 1.10, False),
            ]
    one = ["--window", "1", "--pt", "on", "--provider", "tcp"]
    post_time = ["--batch", "18880", *one, "--post-time", "--iters", "20" if quick else "100"]
    rows += [
        bench("tcp, 4 KiB write with notification, progress thread on: p50",
              ["--sizes", "4K", "--notify", "on", *one, "--seconds", seconds], first("p50_us"), 100, False, " us"),
        bench("tcp, 18,880 descriptors of 4 KiB, progress thread on: time in post, p99",
              ["--sizes", "4K", *post_time],
              first("post_p99_us"), 4000, False, " us"),
        bench("tcp, 18,880 descriptors of 8 B with a notification, progress thread on: time in post, p99",
              ["--sizes", "8", *post_time, "--notify", "on"],
              first("post_p99_us"), 4000, False, " us"),
        bench("tcp, idle, progress thread on: CPU, the busier side",
              ["--idle-check", "1" if quick else "10", "--pt", "on", "--provider", "tcp"], idle_percent, 0.5, False, " %"),
        table.ProgramFigure(MICRO / "wake-up", "sleeping progress thread: from an event to its look, p99",
                            ["--slices", "2" if quick else "20"], lambda document: document["p99_us"], 30, False, " us"),
    ]
    for provider in ("tcp", "shm"):
        rows.append(table.ProgramFigure(
            MICRO / "flow-bench", f"{provider}, 4 KiB write with notification there and back: p50, ours / raw",
            ["--provider", provider, "--latency", "--notified", "--size", "4K", "--ring", "16", "--raw-endpoints", "2",
             "--seconds", "1" if quick else "15", "--slices", "4" if quick else "30"],
            lambda document: document["ratio_raw"], 1.15, False))
    beside_raw, over_simulated = flows.figures(quick)
    return rows + beside_raw + [SimulatedFigure(*figure) for figure in over_simulated + simulated.figures(quick)]


def main():
    parser = table.parser(__doc__, PAGE)
    parser.add_argument("--prefix", default="", help="command to run each with, e.g. 'chrt -f 5' where others use the cores")
    options = parser.parse_args()
    table.build()
    table.ProgramFigure.prefix = options.prefix.split()
    columns = [table.FIGURE, table.COMMAND, table.BOUND, table.MEASURED, table.HOLDS]
    return table.measure(figures(options.quick), table.Table(PAGE, columns), options)


if __name__ == "__main__":
    sys.exit(main())
