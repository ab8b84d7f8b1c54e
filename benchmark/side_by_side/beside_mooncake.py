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
import sys

import chroot
import report

INSIDE = pathlib.Path(__file__).resolve().parent / "mooncake_turns.py"
PATHS = chroot.PATHS | {"preload": (chroot.BUILD / "test/strangers/preload/libverbs-preload.so", "what shows Mooncake the NICs")}
ROOM = 64 << 20
SIZES = [4 << 10 << 2 * step for step in range(7)]
BATCHES = (1, 64)


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
    return chroot.plan(options, PATHS) | {"scenarios": chosen, "progress_thread": options.thread == "on"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="a cell, pass and side")
    parser.add_argument("--only", default="", help="cells whose name matches this regular expression")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--thread", choices=("on", "off"), default="on", help="our progress thread (default: on, as in the host)")
    parser.add_argument("--parts", type=pathlib.Path, help="file of what parts of this run have found; made by the first")
    chroot.add_options(parser, PATHS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.05
    if options.rails < 2 or options.rate <= 0:
        parser.error("--rails is at least 2 and --rate above 0")
    return options


def with_parts(path, found):
    """Found results by cell, and those of earlier parts of the run."""
    results = {tuple(key): result for key, result in (json.loads(path.read_text()) if path and path.exists() else [])}
    results |= {tuple(key): result for key, result in found}
    if path:
        path.write_text(json.dumps(list(results.items())))
    return results


def main():
    options = parse()
    chroot.build(options, PATHS)
    measured = with_parts(options.parts, chroot.measure(INSIDE, plan(options)).items())
    style = report.Style("Mooncake", "Mooncake's EFA transport", "compare-mooncake", lambda key, cell: f"{key[0]}, {cell['op']}", True)
    found = report.Report(measured, options, style)
    found.facts += f"; {chroot.facts(options)}"
    return found.deliver(options, chroot.ROOT / "docs")


if __name__ == "__main__":
    sys.exit(main())
