#!/usr/bin/env python3
"""Railyard beside the stock UCX plugin, in the same stock host, in turns: time of a transfer, and the ratio (above 1: ours is faster).

    benchmark/compare.py                       5 rounds of every cell: half an hour
    benchmark/compare.py --only 'tcp.*4 KiB'   cells by name
    benchmark/compare.py --quick               2 rounds of a few cells, to see that it works
    benchmark/compare.py --json FILE --svg FILE --write
    benchmark/compare.py --memory vram         memory of a GPU on both sides, on a machine with one

A round has two processes of ours and two of theirs, new ones. In each cell they take turns, slice by slice, and who waits is stopped: what
else the machine does meets both. Ratios are of the medians of a round's slices; shown is the median of the rounds, and between which they
were: with 5 rounds that is a 94 % confidence interval. Every cell's bytes are compared, and every notification is counted. Needs the package
index once, and a quiet machine.
"""

import argparse
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import report
import slices
import stock_host
import turns

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {"8 B": 8, "4 KiB": 4 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "16 MiB": 16 << 20}
BATCHES = (1, 64, 512)
TRANSPORTS = {
    # ours, and the environment that theirs needs
    "tcp": ({"provider": "tcp", "devices": "lo", "local_rail": "off"}, {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}),
    "same host": ({"provider": "shm", "local_rail": "auto"}, {}),
}


KINDS = {"dram": ["DRAM", "DRAM"], "vram": ["VRAM", "VRAM"], "vram-dram": ["VRAM", "DRAM"], "dram-vram": ["DRAM", "VRAM"]}


def cell(op, words, batch, notify, window=1):
    return {"op": op, "size": SIZES[words], "batch": batch, "notify": notify, "window": window,
            "name": f"{op}{', notification' if notify else ''}, {words} x {batch}" + (f", {window} outstanding" if window > 1 else "")}


def all_cells():
    cells = [cell(op, words, batch, notify) for op in ("WRITE", "READ") for notify in (False, True) for words in SIZES
             for batch in BATCHES]
    return cells + [cell("WRITE", "8 B", 1, False, 64)]


def groups(options):
    """(transport, progress thread, cells), of which each is two passes a round."""
    for transport in TRANSPORTS:
        for thread in (False, True):
            where = f"{transport}, thread {'on' if thread else 'off'}"
            cells = [cell for cell in all_cells() if re.search(options.only, f"{where}, {cell['name']}")]
            if options.quick:
                cells = [cell for cell in cells if cell["size"] in (8, 1 << 20) and cell["batch"] < 512]
            if cells:
                yield transport, thread, where, cells


def make_pair(python, plugins, backend, transport, thread, memory):
    params, environment = TRANSPORTS[transport]
    if memory != "dram" and "UCX_TLS" in environment:
        environment = environment | {"UCX_TLS": f"{environment['UCX_TLS']},cuda_copy"}
    plan = {"backend": backend, "params": params if backend == "RAILYARD" else {}, "progress_thread": thread, "memory": KINDS[memory]}
    return slices.Pair(python, plugins, plan, environment if backend == "UCX" else {})


def plugin_directory(root, plugin):
    """Beside the wheel's own, so that theirs finds its libraries."""
    libraries = stock_host.library_directory(root)
    if libraries is None or not (libraries / "plugins/libplugin_UCX.so").exists():
        raise stock_host.Missing("the wheel holds no UCX plugin where it used to")
    made = libraries / f"railyard-compare-{os.getpid()}"
    made.mkdir()
    (made / "libplugin_UCX.so").symlink_to("../plugins/libplugin_UCX.so")
    shutil.copy2(plugin, made / "libplugin_RAILYARD.so")
    return made


def measure(options, python, plugins):
    found = turns.Turns(options.rounds)
    backends = {"ours": "RAILYARD", "theirs": options.against}
    for round_number in range(options.rounds):
        for transport, thread, where, cells in groups(options):
            found.announce(round_number, where)
            makers = [(side, functools.partial(make_pair, python, plugins, backends[side], transport, thread,
                                                options.memory))
                      for side in turns.in_order(backends, round_number)]
            by_key = {(transport, thread, one["name"]): one for one in cells}
            for side, (times, errors) in slices.measure(cells, makers, options.slices, options.seconds).items():
                found.add(side, by_key, times, errors)
    return found.results


def style_of(options):
    """Memory of GPUs has tables of its own."""
    if options.memory == "dram":
        return None
    name = "GPU memory" if options.memory == "vram" else options.memory
    return report.Style(options.against, f"stock {options.against}, {name}", name=f"compare-{options.memory}")


def add_options(parser, against):
    """How cells are measured slice by slice, beside the backend `against`."""
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.15, help="a cell, round and side")
    parser.add_argument("--slices", type=int, default=5, help="so many of each side in that time")
    parser.add_argument("--only", default="", help="cells whose name matches this regular expression")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--against", default=against, choices=(against, "RAILYARD"), help="RAILYARD: ours against itself")


def check_options(parser, options):
    if options.rounds < 1 or options.slices < 1 or options.seconds <= 0:
        parser.error("--rounds and --slices are at least 1 and --seconds above 0")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "UCX")
    parser.add_argument("--memory", default="dram", choices=KINDS, help="the initiator's and the target's")
    parser.add_argument("--plugin", type=pathlib.Path, help="libplugin_RAILYARD.so; built where none is named")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put table and picture into docs")
    options = parser.parse_args()
    check_options(parser, options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nobody is left stopped
    if options.quick:
        options.rounds, options.seconds = 2, 0.05
    if not options.plugin:
        subprocess.run([str(ROOT / "benchmark/run"), "--build-only"], stdin=subprocess.DEVNULL, check=True, stdout=sys.stderr)
        options.plugin = ROOT / "build/release/plugins/libplugin_RAILYARD.so"
    try:
        python, root = stock_host.host_python(stock_host.cache_directory())
        plugins = plugin_directory(root, options.plugin.resolve())
    except stock_host.Missing as why:
        print(f"skipped: {why}")
        return 77
    try:
        found = report.Report(measure(options, python, plugins), options, style_of(options))
    finally:
        shutil.rmtree(plugins)
    return found.deliver(options, ROOT / "docs")


if __name__ == "__main__":
    sys.exit(main())
