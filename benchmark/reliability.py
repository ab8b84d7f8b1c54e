#!/usr/bin/env python3
"""Measures the figures that docs/reliability.md promises and prints them as rows of its table.

    benchmark/reliability.py            build, measure, print; exit status 1 if a figure misses its bound; some minutes
    benchmark/reliability.py --write    also put date, machine and rows into docs/reliability.md
    benchmark/reliability.py --quick    few rounds, to see that it works; the figures mean little
    benchmark/reliability.py --counted --quick --build build/test
                                        what is counted, on a busy machine too, with what has been built there; CI fails on it

Times want a quiet machine. Over tcp it is this machine's loopback; NICs are simulated (docs/simulated-efa.md).
"""

import json
import pathlib
import subprocess
import sys

import simulated
import table

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reliability.md"
TCP = ["--provider", "tcp"]
SHM = ["--provider", "shm", "--rails", "1"]
EFA = ["--provider", "efa-direct", "--rails", "4"]


class Figure(table.Bound):
    """A figure of one run of a program under test/fault/numbers: its words, how to read the value, and what else to show of it."""

    stage = None  # where it runs

    def __init__(self, name, words, read, bound, unit="", at_least=False, show=None, counted=False):
        super().__init__(name, bound, at_least, unit)
        self.words, self.read, self.show, self.counted = [str(word) for word in words], read, show, counted
        self.document = {}

    def measure(self):
        try:
            self.document = self.stage.run(self.words)
            return self.document, self.read(self.document)
        except (subprocess.SubprocessError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
            print(f"{self.name}: {error}", file=sys.stderr)
            return {}, None

    def shown(self, value):
        return self.show(self.document) if self.show else super().shown(value)


class Stage:
    """Runs the programs on a simulated machine of their own, one run for all rows that have the same words."""

    def __init__(self, machine):
        self.programs = machine.build / "test/fault/numbers"
        self.environment = {
            **machine.environment, "FI_PROVIDER": "efa,net,tcp,ofi_rxm",
            "RAILYARD_SIM_TARGET": str(self.programs / "sim_target"), "NIXL_LOG_LEVEL": "ERROR",
            # Small blocks that a thread keeps for itself would count as in use.
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
        self.seen = {}

    def run(self, words):
        key = " ".join(words)
        if key not in self.seen:
            environment = {**self.environment, "FI_PROVIDER": "shm"} if "shm" in words else self.environment
            done = subprocess.run([str(self.programs / words[0]), *words[1:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=900, check=False, env=environment)
            if done.returncode != 0:
                raise ValueError(f"{key}: exit status {done.returncode}: {done.stderr[-400:].strip()}")
            self.seen[key] = json.loads(done.stdout)
        return self.seen[key]


def at(times, share):
    """The time that this share of them does not exceed."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def p99(document):
    return at(document["ms"], 0.99)


def longest(document):
    return max(document["ms"])


def percentiles(document):
    times = document["ms"]
    return f"p50 {at(times, 0.5):.3g}, p99 {p99(document):.3g} ms; {len(times)} rounds"


def extremes(document):
    times = document["ms"]
    return f"p50 {at(times, 0.5):.3g}, max {max(times):.3g} ms; {len(times)} rounds"


def ratio(of, to):
    """Median of the ratios of slices that followed each other."""
    return lambda document: at([a / b for a, b in zip(document[of], document[to])], 0.5)


def rail_figures(quick):
    rounds = ["--rounds", 5 if quick else 100]
    few = ["--rounds", 2 if quick else 30]
    return [
        Figure("a rail of 4 reports an error under a transfer: from then to its end over the others",
               ["fault-numbers", "rail-death", "--how", "error", *EFA, *rounds], p99, 10, " ms", show=percentiles),
        Figure("a link of 4 goes down under a transfer: from the first error to its end over the others",
               ["fault-numbers", "rail-death", "--how", "link", *EFA, *rounds], p99, 10, " ms", show=percentiles),
        Figure("all links down for 1.5 to 2.5 s: from their return to the end of the first transfer",
               ["fault-numbers", "link-return", *EFA, *few], p99, 1250, " ms", show=percentiles),
        Figure("the same on fabric efa, where messages keep their order",
               ["fault-numbers", "link-return", "--provider", "efa", *EFA[2:], *few], p99, 1500, " ms", show=percentiles),
    ]


def peer_figures(quick):
    rounds = ["--rounds", 2 if quick else 30]
    death = ["fault-numbers", "peer-death"]
    silent = 500 + 150
    rows = [
        Figure("tcp, peer killed under transfers: to the end of the last", [*death, "--how", "flight", *TCP, "--rails", 2, *rounds],
               longest, 200, " ms", show=extremes),
        Figure("simulated p5, peer killed under transfers: from the first error that a NIC reports to the end of the last",
               [*death, "--how", "flight", *EFA, *rounds], longest, 200, " ms", show=extremes),
        Figure("shm, peer killed under a stream of transfers: to the end of the last",
               [*death, "--how", "stream", *SHM, *rounds], longest, 200, " ms", show=extremes)]
    for name, words in (("tcp", TCP), ("simulated p5", EFA)):
        rows += [
            Figure(f"{name}, idle peer killed, keepalive_ms as it comes: until posts to it end at once",
                   [*death, "--how", "idle", *words, *rounds], longest, 1000, " ms", show=extremes),
            Figure(f"{name}, peer silent under a transfer, peer_timeout_ms 500: to its end; 150 ms for two looks and the closing",
                   [*death, "--how", "silent", *words, *rounds], longest, silent, " ms", show=extremes),
            Figure(f"{name}, peer restarted: from its new metadata to the end of the first transfer",
                   ["fault-numbers", "peer-restart", *words, *rounds], p99, 100, " ms", show=percentiles)]
    for name, words in (("tcp", TCP), ("simulated p5", EFA)):
        rows += [Figure(
            f"{name}, throughput to one peer in the second in which another {what} under a transfer, of a second without",
            ["fault-numbers", "neighbour", "--how", how, *words, "--rounds", 3 if quick else 30], ratio("troubled", "calm"), 0.95,
            at_least=True)
            for how, what in (("killed", "is killed"), ("silent", "goes silent (peer_timeout_ms 500)"))]
    return rows


def message_figures(quick):
    writes = 6000 if quick else 60_000
    rows = []
    for name, words in (("tcp", TCP), ("simulated p5", EFA)):
        plain = ["fault-numbers", "plain-writes", *words, "--count", writes, "--rounds", 5 if quick else 25]
        rows += [
            Figure(f"{name}, a notified write after {writes:,} plain ones: latency, of that after few", plain,
                   ratio("many_ms", "few_ms"), 1.2),
            Figure(f"{name}, heap of both sides after {writes:,} plain writes: growth", plain,
                   lambda document: document["heap_growth"], 0, " B", counted=True),
            Figure(f"{name}, 1,200 notifications of 20 kB from 4 threads at once: arrived whole and once",
                   ["fault-numbers", "messages", *words, "--count", 1200, "--rounds", 4],
                   lambda document: document["intact"] if document["arrived"] == 1200 else 0, 1200, at_least=True,
                   show=lambda document: f"{document['intact']} of {document['arrived']}", counted=True)]
    return rows


def memory_figures(quick):
    cycles = 1000 if quick else 10_000
    rows = []
    for name, words in (("tcp", TCP), ("simulated p5", EFA)):
        rows.append(Figure(f"{name}, heap of both sides after {cycles:,} connections made, used and ended: growth",
                           ["fault-numbers", "cycles", *words, "--count", cycles], lambda document: document["heap_growth"], 0, " B",
                           counted=True))
    for name, words in (("that we write to", []), ("that also writes to us", ["--back"])):
        rows.append(Figure(f"simulated p5, memory of a peer {name}, a pair of rails; without the provider's",
                           ["peer-memory", *EFA[:2], "--rails", 16, "--peers", 4, *words], lambda document: document["ours"], 256, " B",
                           counted=True))
    return rows


def main():
    parser = table.parser(__doc__, PAGE)
    parser.add_argument("--counted", action="store_true", help="only what is counted")
    parser.add_argument("--build", type=pathlib.Path, help="a build directory to take as it is, instead of building build/release")
    options = parser.parse_args()
    if not options.build:
        table.build()
    figures = [figure for part in (rail_figures, peer_figures, message_figures, memory_figures) for figure in part(options.quick)
               if figure.counted or not options.counted]
    columns = [table.FIGURE, table.BOUND, ("seen", table.MEASURED[1]), table.HOLDS]
    with simulated.cluster("p5.48xl", (options.build or simulated.BUILD).resolve()) as machine:
        Figure.stage = Stage(machine)
        return table.measure(figures, table.Table(PAGE, columns), options)


if __name__ == "__main__":
    sys.exit(main())
