#!/usr/bin/env python3
"""Railyard beside the stock LIBFABRIC plugin, in the same stock host, in turns, on the same simulated EFA NICs: time of a transfer, and
the ratio (above 1: ours is faster).

    benchmark/compare.py libfabric                      5 rounds of every cell: seven minutes
    benchmark/compare.py libfabric --only 'no rate, thread on.*4 KiB'
    benchmark/compare.py libfabric --quick              one round of a few cells, to see that it works
    benchmark/compare.py libfabric --json FILE --svg FILE --write
    benchmark/compare.py libfabric --against RAILYARD   ours against itself: what the noise is

Runs in the chroot of scripts/trixie-chroot, as the stock plugin wants a newer libfabric than Debian 12 has: needs root, Debian's mirror
and the package index once, and a quiet machine. The host is NIXL 1.5.0, as the plugin of 1.5.1 wants a newer one still. A round has two
processes of ours and two of theirs, new ones, each a host of its own. In each cell they take turns, slice by slice, and who waits is
stopped. Every cell's bytes are compared, and every notification is counted. Theirs is told to use all NICs for host memory, as ours is.
Rates are those of the NICs, set so low that not the copying of memory is what is compared; `no rate` lets them go as fast as that.
"""

import argparse
import pathlib
import re
import sys

import chroot
import measure
import report

INSIDE = pathlib.Path(__file__).resolve().parent / "libfabric_turns.py"
ROOM = 64 << 20  # that each side registers, as in one_pass.py
BATCHES = (1, 64)
KINDS = (("WRITE", False), ("WRITE", True), ("READ", False))  # with a notification?


def all_cells():
    """What 64 MiB hold, of each size one block and 64."""
    return [measure.cell(op, words, batch, notify) for op, notify in KINDS for words, size in measure.SIZES.items() for batch in BATCHES
            if size * batch <= ROOM]


def scenarios(rate):
    """Settings of all NICs."""
    return {f"{rate:g} Gbit/s, 10 us": [f"rate_gbps={rate:g}", "latency_us=10"], "no rate": []}


def groups(options):
    for scenario, settings in scenarios(options.rate).items():
        for thread in (False, True):
            where = f"{scenario}, thread {'on' if thread else 'off'}"
            cells = [cell for cell in all_cells() if re.search(options.only, f"{where}, {cell['name']}")]
            if options.quick:
                cells = [cell for cell in cells if cell["size"] in (4 << 10, 1 << 20)]
            if cells:
                yield {"scenario": scenario, "settings": settings, "progress_thread": thread, "where": where, "cells": cells}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_options(parser, "LIBFABRIC")
    chroot.add_options(parser, chroot.PATHS)
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, 0.05
    measure.check_options(parser, options)
    if options.rails < 1 or options.rate <= 0:
        parser.error("--rails is at least 1 and --rate above 0")
    return options


def main():
    options = parse()
    chroot.build(options, chroot.PATHS)
    plan = chroot.plan(options, chroot.PATHS) | {"groups": list(groups(options)), "slices": options.slices, "against": options.against}
    style = report.Style(options.against, f"stock {options.against}, simulated EFA", "compare-libfabric")
    found = report.Report(chroot.measure(INSIDE, plan), options, style)
    found.facts += f"; {chroot.facts(options)}"
    return found.deliver(options, chroot.ROOT / "docs")


if __name__ == "__main__":
    sys.exit(main())
