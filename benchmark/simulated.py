"""Figures over the simulated EFA machine (docs/simulated-efa.md), for numbers.py.

Rates are set so low that copying memory is not the limit; what is measured is how well the rails are used, and what can be
counted: doorbells, bytes a NIC, instructions.
"""

import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
sys.path.insert(0, str(ROOT / "benchmark/micro"))
import callgrind  # noqa: E402

ALL_RAILS = ["--param", "max_bw_per_dram_seg=1000000"]  # of the machine, not only those near the memory


class Cluster:
    """A namespace of simulated NICs; the benchmark's two sides are the hosts `initiator` and `target`."""

    numbers = itertools.count()

    def __init__(self, instance, build):
        self.build = build
        self.environment = {
            **os.environ, "FI_PROVIDER": "efa", "FI_PROVIDER_PATH": str(build / "test/simefa/provider"),
            "HWLOC_XMLFILE": str(ROOT / f"test/topo/{instance}.xml"), "SIMEFA_HOST": "initiator",
            "RAILYARD_LOCAL_RAIL": "off",  # hosts are processes of one kernel
            "SIMEFA_NAMESPACE": f"numbers-{os.getpid()}-{next(self.numbers)}"}

    def run(self, *command):
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              timeout=600, check=True, env=self.environment)
        return done.stdout

    def control(self, *words):
        return self.run(self.build / "test/simefa/simefactl", *words)

    def bench(self, *words):
        return json.loads(self.run(BUILD / "bin/railyard-bench", "--provider", "efa-direct", "--target-env",
                                   "SIMEFA_HOST=target", "--json", "-", *words))

    def counters(self, host="initiator"):
        rows = json.loads(self.control("show"))["nics"]
        return [row["counters"] for row in rows if row["host"] == host]


@contextlib.contextmanager
def cluster(instance, build=BUILD):
    made = Cluster(instance, build)
    try:
        yield made
    finally:
        made.control("sweep", "--all")


def used(counters):
    """Counters of the NICs that carried data, not only control messages."""
    return [nic for nic in counters if nic["writes"] + nic["reads"] > 0]


def all_rails(seconds):
    """32 NICs at one rate: bandwidth as a share of the sum, and the largest deviation of a NIC's bytes from the mean."""
    with cluster("p5.48xl") as machine:
        machine.control("set", "rate_gbps=0.25")
        row = machine.bench(*ALL_RAILS, "--sizes", "16M", "--window", "8", "--seconds", seconds, "--no-check")["results"][0]
        carried = [nic["bytes_out"] for nic in used(machine.counters())]
        mean = sum(carried) / 32
        return row["mb_per_s"] * 8 / (32 * 250), max(abs(bytes_ - mean) for bytes_ in carried + [mean] * (32 - len(carried))) / mean * 100


def slow_rail(seconds, *workload):
    """4 NICs, one at a quarter of the rate: bandwidth as a share of what the four can do together."""
    with cluster("p5.48xl") as machine:
        machine.control("set", "rate_gbps=2")
        machine.control("set", "--nic", "rdmap96s0", "rate_gbps=0.5")
        row = machine.bench(*ALL_RAILS, "--param", "rails=4", *workload, "--seconds", seconds,
                            "--no-check")["results"][0]
        return row["mb_per_s"] * 8 / 6500


def fair_share(sizes):
    with cluster("p5.48xl") as machine:
        machine.control("set", "rate_gbps=2")
        return json.loads(machine.run(BUILD / "benchmark/fair-share", "--bytes", 256 << 20, "--sizes", *sizes))["share"]


def doorbells(rails, batch):
    with cluster("p5.48xl") as machine:
        machine.control("set", "latency_us=1")
        machine.bench(*ALL_RAILS, "--param", f"rails={rails}", "--sizes", "4K", "--batch", batch, "--window", "4", "--iters",
                      "400", "--no-check")
        counters = used(machine.counters())
        return sum(nic["doorbells"] for nic in counters) / sum(nic["writes"] for nic in counters)


def two_threads(size, descriptors, seconds):
    """Rate of two threads on one engine with 4 rails over that of one."""
    with cluster("p5.48xl") as machine:
        seen = json.loads(machine.run(BUILD / "benchmark/post-threads", "--here", "--size", size, "--descriptors", descriptors,
                                      "--seconds", float(seconds) / 15))
        return seen["scaling"]


def early_notification(descriptors):
    """4 KiB each with a notification over 10 us of latency: p50 with notifications that leave together with their data, of those that follow."""
    p50 = []
    with cluster("p5.48xl") as machine:
        machine.control("set", "latency_us=10")
        for setting in ("auto", "off"):
            rows = machine.bench(*ALL_RAILS, "--param", "rails=4", "--param", f"early_notifications={setting}", "--sizes", "4K", "--batch", descriptors,
                                 "--notify", "on", "--window", "1", "--seconds", "1")["results"]
            p50.append(rows[0]["p50_us"])
    return p50[0] / p50[1]


def engine_cost():
    """Of an engine with 32 rails: seconds to create it beyond discovery, and KiB of pinned control memory a rail."""
    with cluster("p5.48xl") as machine:
        seen = json.loads(machine.run(BUILD / "benchmark/descriptor-cost", "--rails", 32, "--rounds", 1))
        return seen["creation_seconds"], seen["control_bytes_per_rail"] / 1024


def instructions(rails, descriptors, size, rounds):
    """Of our own code for one descriptor. A look at what is not finished yet costs instructions, too, and comes by chance: runs until
    the two least agree."""
    if not shutil.which("valgrind"):
        raise ValueError("valgrind is not installed: apt-get install valgrind")
    counted = []
    with cluster("p5.48xl") as machine:
        while len(counted) < 15:
            out, costs = callgrind.run(
                [str(BUILD / "benchmark/descriptor-cost"), "--rails", str(rails), "--descriptors", str(descriptors), "--size",
                 str(size), "--rounds", str(rounds)], "railyard::*measured_rounds*", machine.environment)
            ours = sum(cost for name, cost in costs.items() if name.endswith("/descriptor-cost"))
            counted = sorted([*counted, ours / json.loads(out)["descriptors"]])
            if len(counted) > 1 and counted[1] <= counted[0] * 1.02:
                break
    return counted[0]


def figures(quick):
    """Rows as numbers.py wants them: name, what measures it, bound, whether at least, unit."""
    seconds = "1.5" if quick else "5"
    once = {}

    def part(function, index):
        def measure():
            if function not in once:
                once[function] = function()
            return once[function][index]
        return measure

    rails32 = lambda: all_rails(seconds)  # noqa: E731
    rows = [
        ("simulated p5, 32 rails of one rate: bandwidth, of their sum", part(rails32, 0), 0.97, True, ""),
        ("simulated p5, 32 rails of one rate: bytes of a rail, off the mean", part(rails32, 1), 2, False, " %"),
        ("simulated p5, 4 rails, one at a quarter of the rate: bandwidth, of the ideal",
         lambda: slow_rail(seconds, "--sizes", "16M", "--window", "8"), 0.95, True, ""),
        ("simulated p5, 4 rails, one at a quarter of the rate: small batches of 4 KiB x 64, of the ideal",
         lambda: slow_rail(seconds, "--sizes", "4K", "--batch", "64", "--window", "1"), 0.8, True, ""),
        ("simulated p5, 4 rails, one at a quarter of the rate: one block of 4 MiB, of the ideal",
         lambda: slow_rail(seconds, "--sizes", "4M", "--window", "1"), 0.8, True, ""),
        ("simulated p5, two transfers at once, 1 MiB descriptors: share of the slower", lambda: fair_share((1 << 20, 1 << 20)), 0.9,
         True, ""),
        ("simulated p5, two transfers at once, 1 MiB and 4 KiB: share of the slower", lambda: fair_share((1 << 20, 4096)), 0.9, True, ""),
        ("simulated p5, 10 us, 4 KiB write with notification, sent ahead: p50, of one that follows its data",
         lambda: early_notification(1), 0.7, False, ""),
        ("simulated p5, 10 us, 4 KiB x 16 write with notification, sent ahead: p50, of one that follows its data",
         lambda: early_notification(16), 0.9, False, ""),
        ("simulated p5, 4 rails, 8 B, two threads: rate, of one", lambda: two_threads(8, 1, seconds), 1.8, True, ""),
        ("simulated p5, 4 rails, 4 KiB, two threads: rate, of one", lambda: two_threads(4096, 1, seconds), 1.8, True, ""),
        ("simulated p5, 4 rails, 4 KiB x 64, two threads: rate, of one", lambda: two_threads(4096, 64, seconds), 1.8, True, ""),
        ("simulated p5, 1 rail, 4 KiB, batch 64: doorbells a descriptor", lambda: doorbells(1, 64), 1 / 16, False, ""),
        ("simulated p5, 4 rails, 4 KiB, batch 512: doorbells a descriptor", lambda: doorbells(4, 512), 1 / 16, False, ""),
        ("simulated p5, 32 rails: creation of an engine beyond discovery", part(engine_cost, 0), 0.5, False, " s"),
        ("simulated p5, 32 rails: pinned control memory a rail", part(engine_cost, 1), 512, False, " KiB"),
    ]
    many = 10_000 if quick else 100_000
    base = lambda: instructions(1, 64, 8, 20)  # noqa: E731
    return rows + [
        ("instructions a descriptor above fi_writemsg: batch 64, 1 rail", base, 120, False, ""),
        ("instructions a descriptor: 32 rails / 1 rail", lambda: instructions(32, 1000, 4096, 1) / instructions(1, 1000, 4096, 1),
         1.4, False, ""),
        (f"instructions a descriptor: {many:,} descriptors / 100", lambda: instructions(1, many, 8, 1) / instructions(1, 100, 8, 20),
         1.1, False, ""),
    ]
