#!/usr/bin/env python3
"""Railyard beside Mooncake's EFA transport, in turns, on the same simulated EFA NICs: time of a transfer, and the ratio (above 1: ours is
faster).

    benchmark/compare.py mooncake                      5 rounds of every cell
    benchmark/compare.py mooncake --only 'dies.*64 KiB'
    benchmark/compare.py mooncake --quick              one round of a few cells, to see that it works
    benchmark/compare.py mooncake --json FILE --svg FILE --write
    benchmark/compare.py mooncake --only 'no rate' --parts FILE     a run in several parts: adds to what FILE holds, reports it all

Runs in the chroot of scripts/trixie-chroot, as Mooncake wants a newer libfabric than Debian 12 has: needs root, Debian's mirror and the
package index once, and a quiet machine. Either side is two processes of Python, each a host of its own: ours of the stock host, which loads
our plugin, theirs of Mooncake's TransferEngine from its package. A cell is a call that moves so many blocks and returns when all are
there. All bytes of a cell are compared before it is timed, and after. Rates are those of the NICs, set so low that not the copying of
memory is what is compared; `no rate` lets them go as fast as that.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROOT = ROOT / "scripts/trixie-chroot"
INSIDE = pathlib.Path(__file__).resolve().parent / "mooncake_turns.py"
BUILD = ROOT / "build/trixie/release"  # made in the chroot: a client of Debian 12's libfabric gets no efa-direct from a newer one
ROOM = 64 << 20
SIZES = [4 << 10 << 2 * step for step in range(7)]
BATCHES = (1, 64)
LIMIT_S = 3600  # a round
CHROOT_FAILED, SKIPPED = 125, 77


def all_cells():
    """Of each size one block, and as many as 64 MiB hold, up to 64."""
    for op in ("WRITE", "READ"):
        for size in SIZES:
            for batch in BATCHES:
                batch = min(batch, ROOM // size)
                yield {"op": op, "size": size, "batch": batch, "notify": False, "window": 1,
                       "name": f"{op}, {report.words_of(size)} x {batch}"}


def scenarios(rate):
    """Settings of all NICs, of one of the initiator's, and of that one when the first bytes have gone through."""
    every = [f"rate_gbps={rate:g}", "latency_us=10"]
    return {
        "all rails at one rate": {"all": every, "one": [], "one_later": []},
        "one rail at a quarter": {"all": every, "one": [f"rate_gbps={rate / 4:g}"], "one_later": []},
        "one rail dies": {"all": every, "one": [], "one_later": ["link=down"]},
        "one rail dead before": {"all": every, "one": ["link=down"], "one_later": []},
        "no rate": {"all": [], "one": [], "one_later": []},
    }


def plan(options):
    chosen = {}
    for where, scenario in scenarios(options.rate).items():
        cells = [cell for cell in all_cells() if re.search(options.only, f"{where}, {cell['name']}")]
        if options.quick:
            cells = [cell for cell in cells if cell["size"] in (4 << 10, 1 << 20)]
        if cells:
            chosen[where] = scenario | {"cells": cells}
    return {"scenarios": chosen, "rounds": options.rounds, "seconds": options.seconds, "rails": options.rails,
            "topology": str(options.topology.resolve()), "plugins": str(options.plugins.resolve()),
            "provider_dir": str(options.provider_dir.resolve()), "preload": str(options.preload.resolve()),
            "simefactl": str(options.simefactl.resolve()), "provider": options.provider, "progress_thread": options.thread == "on",
            "corrupt": options.corrupt}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="a cell, pass and side")
    parser.add_argument("--only", default="", help="cells whose name matches this regular expression")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rails", type=int, default=4, help="so many of the machine's NICs")
    parser.add_argument("--rate", type=float, default=2, help="Gbit/s of a NIC")
    parser.add_argument("--topology", type=pathlib.Path, default=ROOT / "test/topo/p5.48xl.xml", help="hwloc XML of the machine")
    parser.add_argument("--provider", choices=("efa-direct", "efa"), default="efa-direct", help="our fabric")
    parser.add_argument("--thread", choices=("on", "off"), default="on", help="our progress thread (default: on, as in the host)")
    for name, where, what in (("plugins", BUILD / "plugins", "directory of libplugin_RAILYARD.so"),
                              ("provider-dir", BUILD / "test/simefa/provider", "directory of libsimefa-fi.so"),
                              ("preload", BUILD / "test/strangers/preload/libverbs-preload.so", "what shows Mooncake the NICs"),
                              ("simefactl", BUILD / "test/simefa/simefactl", "")):
        parser.add_argument(f"--{name}", type=pathlib.Path, default=where, help=f"{what}; built where none is named".strip("; "))
    parser.add_argument("--parts", type=pathlib.Path, help="file of what parts of this run have found; made by the first")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put table and picture into docs")
    parser.add_argument("--corrupt", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.05
    if options.rails < 2 or options.rate <= 0:
        parser.error("--rails is at least 2 and --rate above 0")
    return options


def in_chroot(*command, **more):
    return subprocess.run([CHROOT, *command], stdin=subprocess.DEVNULL, text=True, check=False, **more)


def build(needs_programs):
    """Makes chroot and programs; SystemExit with status 77 where there can be no chroot."""
    made = in_chroot("--make", stderr=subprocess.PIPE)
    if made.returncode:
        print(f"skipped: {(made.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        raise SystemExit(SKIPPED if made.returncode == CHROOT_FAILED else 1)
    if needs_programs and in_chroot(ROOT / "benchmark/run", "--build-dir", BUILD, "--build-only", stdout=sys.stderr).returncode:
        raise SystemExit("the build in the chroot has failed")


def measure(options):
    """What has been found, as report.Report wants it; SystemExit with status 77 where Mooncake or the stock host cannot be had."""
    done = in_chroot("python3", "-B", INSIDE, json.dumps(plan(options)), stdout=subprocess.PIPE, timeout=LIMIT_S * options.rounds)
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    if done.returncode:
        print(last)
        raise SystemExit(done.returncode)
    return with_parts(options.parts, json.loads(last))


def with_parts(path, found):
    """Found results by cell, and those of earlier parts of the run."""
    results = {tuple(key): result for key, result in (json.loads(path.read_text()) if path and path.exists() else [])}
    results |= {tuple(key): result for key, result in found}
    if path:
        path.write_text(json.dumps(list(results.items())))
    return results


def main():
    options = parse()
    build(any(BUILD in path.parents for path in (options.plugins, options.provider_dir, options.preload, options.simefactl)))
    style = report.Style("Mooncake", "Mooncake's EFA transport", "compare-mooncake", lambda key, cell: f"{key[0]}, {cell['op']}", True)
    found = report.Report(measure(options), options, style)
    found.facts += f"; {options.rails} NICs of a simulated {options.topology.stem}arge, {options.rate:g} Gbit/s each"
    return found.deliver(options, ROOT / "docs")


if __name__ == "__main__":
    sys.exit(main())
