#!/usr/bin/env python3
"""benchmark/compare.py: what it makes of what it has measured, and a run of ours against itself.  compare_test.py CASE [PLUGIN]"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark/side_by_side"))
import measure  # noqa: E402
import report  # noqa: E402

OPTIONS = argparse.Namespace(rounds=3, seconds=0.1, against="UCX", only="", quick=False)


def results(ours, theirs, **changes):
    cell = measure.cell("WRITE", "4 KiB", 64, True) | changes
    return {("tcp", False, cell["name"]): {"cell": cell, "ours": ours, "theirs": theirs}}


def case_ratios():
    found = report.Report(results([10.0, 20.0, 10.0], [30.0, 10.0, 20.0]), OPTIONS)
    (ratio,) = found.ratios.values()
    assert (ratio.median, ratio.ratios, ratio.ours_us, ratio.theirs_us) == (2, [0.5, 2, 3], 10, 20), vars(ratio)
    assert found.complete() and "| 2.00 (0.50 to 3.00) |" in found.table(), found.table()
    assert "1 of 1 cells at 1 or above; geometric mean 2.00." in found.table(), found.table()
    slow = report.Report(results([10.0, None], [5.0, 30.0]), OPTIONS)
    assert "| **0.50** (0.50 to 0.50) |" in slow.table() and slow.complete(), slow.table()
    theirs = report.Report(results([10.0], [None]), OPTIONS)
    assert "theirs failed" in theirs.table() and theirs.complete(), theirs.table()
    ours = report.Report(results([None], [10.0]), OPTIONS)
    assert "ours failed" in ours.table() and not ours.complete(), ours.table()
    assert not report.Report({}, OPTIONS).complete()


def case_outputs():
    found = report.Report(results([10.0], [20.0]) | results([1.0], [None], name="READ", op="READ", size=8, batch=1), OPTIONS)
    cells = json.loads(found.json())["cells"]
    assert [(cell["op"], cell["size"], cell["batch"], cell["notify"], cell["ratio"]) for cell in cells] == [
        ("WRITE", 4096, 64, True, 2), ("READ", 8, 1, True, None)], cells
    texts = [element.text for element in xml.etree.ElementTree.fromstring(found.svg()).iter() if element.text]
    for wanted in ("2.00", "failed", "4 KiB", "x 64", "8 B", "tcp, thread off, WRITE, notification"):
        assert wanted in texts, (wanted, texts)
    with tempfile.TemporaryDirectory() as folder:
        docs = pathlib.Path(folder)
        (docs / "images").mkdir()
        (docs / "benchmarks.md").write_text(f"a\n{report.BEGIN}\nold\n{report.END}\nb\n", encoding="utf-8")
        found.write(docs)
        page = (docs / "benchmarks.md").read_text(encoding="utf-8")
        assert page.startswith("a\n") and page.endswith("\nb\n") and "old" not in page and found.table() in page, page
        assert (docs / "images/compare.svg").read_text(encoding="utf-8") == found.svg()


def case_cells():
    groups = list(measure.groups(OPTIONS))
    assert [group[:2] for group in groups] == [(where, thread) for where in ("tcp", "same host") for thread in (False, True)], groups
    names = [cell["name"] for cell in groups[0][3]]
    assert len(names) == len(set(names)) == 2 * 2 * 5 * 3 + 1, names
    few = list(measure.groups(argparse.Namespace(only="same host, thread on, READ, 1 MiB x 64", quick=False)))
    assert [(group[:2], [cell["name"] for cell in group[3]]) for group in few] == [(("same host", True), ["READ, 1 MiB x 64"])], few


def case_itself(plugin):
    """WRITE and READ, blocks with gaps and blocks that begin again at the front of the buffer, with notifications."""
    begun = time.time() - 1
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cells.json"
        done = subprocess.run([str(ROOT / "benchmark/compare.py"), "--plugin", plugin, "--against", "RAILYARD", "--rounds", "1", "--seconds",
                               "0.02", "--only", "off, (WRITE|READ), notification, (8 B x 64|16 MiB x 64)$", "--json", str(path)],
                              capture_output=True, text=True, timeout=200, check=False)
        if done.returncode == 77:
            print(done.stdout)
            sys.exit(77)
        assert done.returncode == 0, (done.stdout, done.stderr)
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        left = [path.name for path in pathlib.Path("/dev/shm").glob("*:*") if path.stat().st_mtime >= begun]
        assert not left, left
        assert len(cells) == 8 and all(cell["ours_us"] > 0 and cell["theirs_us"] > 0 for cell in cells), cells


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]](*sys.argv[2:])
