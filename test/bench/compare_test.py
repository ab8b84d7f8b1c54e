#!/usr/bin/env python3
"""benchmark/compare.py: what it makes of what it has measured, a run of ours against itself, and runs beside Mooncake and the stock
LIBFABRIC plugin.

    compare_test.py CASE [PLUGIN | ARGUMENTS of compare.py]
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import types
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark/side_by_side"))
import beside_libfabric  # noqa: E402
import beside_mooncake  # noqa: E402
import measure  # noqa: E402
import report  # noqa: E402
import turns  # noqa: E402

SHORT = ("--rounds", "1", "--seconds", "0.02")
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
    assert "| **0.50** (0.50 to 0.50), ours failed in 1 of 2 rounds |" in slow.table() and not slow.complete(), slow.table()
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
        begin, end = found.style.markers
        (docs / "benchmarks.md").write_text(f"a\n{begin}\nold\n{end}\nb\n", encoding="utf-8")
        found.write(docs)
        page = (docs / "benchmarks.md").read_text(encoding="utf-8")
        assert page.startswith("a\n") and page.endswith("\nb\n") and "old" not in page and found.table() in page, page
        assert (docs / "images/compare.svg").read_text(encoding="utf-8") == found.svg()


def case_turns():
    """The order changes with the round; what a pass did not get to is None, and the first reason stays."""
    found, asked = turns.Turns(2), []

    def side(name, times, errors):
        return lambda: asked.append(name) or (times, errors)
    cells = {("tcp", False, name): {"name": name} for name in ("a", "b")}
    for number in range(2):
        found.take(number, "tcp", cells, {"ours": side("ours", {"a": 1.0, "b": 2.0}, {}),
                                          "theirs": side("theirs", {"a": 3.0}, {"b": f"round {number}"})})
    assert asked == ["ours", "theirs", "theirs", "ours"], asked
    results = found.results[("tcp", False, "b")]
    assert (results["ours"], results["theirs"], results["why"]) == ([2.0, 2.0], [None, None], {"theirs": "round 0"}), results


def case_failures():
    """A failure of theirs is shown with its reason, beside what ours did."""
    style = report.Style("Mooncake", "Mooncake", "compare-mooncake", lambda key, cell: f"{key[0]}, {cell['op']}", True)
    measured = results([10.0], [None])
    for result in measured.values():
        result["why"] = {"theirs": "a transfer ends with status -1"}
    found = report.Report(measured, OPTIONS, style)
    table = found.table()
    assert "* theirs failed in 1 cells: a transfer ends with status -1" in table and found.complete(), table
    assert "In 1 more theirs failed in every round, ours in none in 1 of them." in table, table
    assert "| tcp, WRITE: ours | 6,400,000/s, 26,214 MB/s |" in table and "| tcp, WRITE: theirs | failed |" in table, table
    assert json.loads(found.json())["cells"][0]["why"] == {"theirs": "a transfer ends with status -1"}, found.json()


def case_cells():
    groups = list(measure.groups(OPTIONS))
    assert [group[:2] for group in groups] == [(where, thread) for where in ("tcp", "same host") for thread in (False, True)], groups
    names = [cell["name"] for cell in groups[0][3]]
    assert len(names) == len(set(names)) == 2 * 2 * 5 * 3 + 1, names
    few = list(measure.groups(argparse.Namespace(only="same host, thread on, READ, 1 MiB x 64", quick=False)))
    assert [(group[:2], [cell["name"] for cell in group[3]]) for group in few] == [(("same host", True), ["READ, 1 MiB x 64"])], few


def cells_of_itself(plugin, *more):
    """Ours against itself, one short round; skips the case where there is no stock host."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cells.json"
        done = subprocess.run([str(ROOT / "benchmark/compare.py"), "--plugin", plugin, "--against", "RAILYARD", "--rounds", "1", "--seconds",
                               "0.02", "--json", str(path), *more], capture_output=True, text=True, timeout=200, check=False)
        if done.returncode == 77:
            print(done.stdout)
            sys.exit(77)
        assert done.returncode == 0, (done.stdout, done.stderr)
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(cell["ours_us"] > 0 and cell["theirs_us"] > 0 for cell in cells), cells
    return cells


def written_since(path, moment):
    try:
        return path.stat().st_mtime >= moment
    except FileNotFoundError:
        return False


def case_itself(plugin):
    """WRITE and READ, blocks with gaps and blocks that begin again at the front of the buffer, with notifications."""
    begun = time.time() - 1
    cells = cells_of_itself(plugin, "--only", "off, (WRITE|READ), notification, (8 B x 64|16 MiB x 64)$")
    # Other programs' endpoints come and go beside it: what nobody takes away is of a process that has ended.
    for _ in range(50):
        left = [path.name for path in pathlib.Path("/dev/shm").glob("*:*")
                if written_since(path, begun) and not pathlib.Path("/proc", re.match("[^-:]*", path.name)[0]).exists()]
        if not left:
            break
        time.sleep(0.2)
    assert not left, left
    assert len(cells) == 8, cells


def case_gpu(plugin):
    """Memory of GPUs, of the fake driver here."""
    cells = cells_of_itself(plugin, "--memory", "vram", "--only", "on, (WRITE|READ), notification, 4 KiB x 64$")
    assert len(cells) == 4, cells


def case_parts():
    """Cells of an earlier part stay, those of this one replace theirs."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "parts.json"
        beside_mooncake.with_parts(path, [[["a", True, "x"], 1], [["a", True, "y"], 2]])
        both = beside_mooncake.with_parts(path, [[["a", True, "y"], 3], [["b", True, "x"], 4]])
        assert both == {("a", True, "x"): 1, ("a", True, "y"): 3, ("b", True, "x"): 4}, both
        assert beside_mooncake.with_parts(path, []) == both and beside_mooncake.with_parts(None, []) == {}


def case_reposts():
    """What only a handle's first post has moved is found after the timed part; every notification is still counted."""
    for name in ("numpy", "place", "nixl_cu12"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["nixl_cu12"].nixl_agent = sys.modules["nixl_cu12"].nixl_agent_config = None
    import one_pass  # pylint: disable=import-outside-toplevel

    class Pair(one_pass.Initiator):
        def __init__(self, last):
            self.last, self.source, self.destination, self.posts, self.counted = last, 0, None, 0, None
            self.plan = {"seconds": 0.001}

        def prepare(self, cell):
            return [None] * cell["window"]

        def fill(self, cell):
            self.source, self.destination = self.source + 1, None

        def round(self, handles):
            self.posts += len(handles)
            if self.posts <= self.last:
                self.destination = self.source

        def compare(self, cell):
            if self.source != self.destination:
                raise RuntimeError("the wrong bytes have arrived")

        def release(self, handles):
            pass

        def count_notifications(self, sent):
            self.counted = sent

    cell = {"name": "a", "size": 8, "batch": 1, "window": 2, "notify": True}
    pair = Pair(float("inf"))
    assert pair.measure(cell) > 0 and pair.counted == pair.posts > 4, (pair.counted, pair.posts)
    try:
        Pair(2).measure(cell)
    except RuntimeError as error:
        assert "wrong bytes" in str(error), error
    else:
        raise AssertionError("the timed part has moved nothing, and nobody says so")


def run_beside(whom, arguments, *more):
    """What ran, and its cells; skips the case where that cannot be had here. Ours is Debian 12's build, which gets no efa-direct."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "cells.json"
        done = subprocess.run([str(ROOT / "benchmark/compare.py"), whom, *arguments, "--provider", "efa", "--json", str(path), *more],
                              capture_output=True, text=True, timeout=460, check=False)
        if done.returncode == 77:
            print(done.stdout)
            sys.exit(77)
        assert path.exists(), (done.stdout, done.stderr)
        return done, json.loads(path.read_text(encoding="utf-8"))["cells"]


def case_mooncake(*arguments):
    """Every cell is there, ours ends well in each, theirs where no rail has failed, and else says why not."""
    done, cells = run_beside("mooncake", arguments, *SHORT, "--only", "(all|quarter|dies).* (4 KiB|1 MiB) x")
    assert done.returncode == 0, (done.stdout, done.stderr)
    found = [(cell["transport"], cell["name"]) for cell in cells]
    wanted = [(where, cell["name"]) for where in ("all rails at one rate", "one rail at a quarter", "one rail dies")
              for cell in beside_mooncake.all_cells() if cell["size"] in (4 << 10, 1 << 20)]
    assert found == wanted and len(wanted) == 24, found
    for cell in cells:
        assert cell["ours_us"] > 0 and (cell["theirs_us"] or cell["why"]["theirs"]), cell
        assert cell["theirs_us"] or cell["transport"] == "one rail dies", cell
    for where, rails in (("one rail at a quarter", 3.25), ("one rail dies", 3)):
        for cell in cells:  # no faster than what is left of four rails of 2 Gbit/s: the rail was disturbed, for both
            if cell["transport"] == where and cell["batch"] * cell["size"] == 64 << 20:
                for us in filter(None, (cell["ours_us"], cell["theirs_us"])):
                    assert us >= 0.95 * (64 << 20) / (rails * 250), cell


def case_mooncake_corrupt(*arguments):
    done, cells = run_beside("mooncake", arguments, *SHORT, "--only", "all rails.* 64 KiB x 1$", "--corrupt")
    assert done.returncode == 1 and len(cells) == 2, (done.stdout, done.stderr)
    for cell in cells:
        assert cell["ours_failed"] == cell["theirs_failed"] == 1, cell
        assert all("the wrong bytes have arrived" in cell["why"][side] for side in ("ours", "theirs")), cell


def case_libfabric(*arguments):
    """Every cell is there, ours ends well in each, theirs in most, and else says why not; both use all rails."""
    done, cells = run_beside("libfabric", arguments, "--quick", "--only", "WRITE.* 4 KiB x|READ, 1 MiB x 64")
    assert done.returncode == 0, (done.stdout, done.stderr)
    names = ("WRITE, 4 KiB x 1", "WRITE, 4 KiB x 64", "WRITE, notification, 4 KiB x 1", "WRITE, notification, 4 KiB x 64",
             "READ, 1 MiB x 64")
    assert set(names) < {cell["name"] for cell in beside_libfabric.all_cells()}
    wanted = [(where, thread, name) for where in ("2 Gbit/s, 10 us", "no rate") for thread in (False, True) for name in names]
    found = [(cell["transport"], cell["progress_thread"], cell["name"]) for cell in cells]
    assert found == wanted and len(wanted) == 20, found
    for cell in cells:
        assert cell["ours_us"] > 0 and (cell["theirs_us"] or cell["why"]["theirs"]), cell
        if cell["transport"] != "no rate" and cell["op"] == "READ":  # faster than two rails, no faster than four
            for us in filter(None, (cell["ours_us"], cell["theirs_us"])):
                assert 0.95 * (64 << 20) / (4 * 250) <= us < (64 << 20) / (2 * 250), cell
    assert sum(cell["theirs_us"] is not None for cell in cells) >= 10, cells


def case_libfabric_corrupt(*arguments):
    """In both; theirs may fail at something else before."""
    done, cells = run_beside("libfabric", arguments, *SHORT, "--only", "10 us, thread off, (WRITE|READ), 64 KiB x 1$", "--corrupt")
    assert done.returncode == 1 and len(cells) == 2, (done.stdout, done.stderr)
    for cell in cells:
        assert cell["ours_failed"] == cell["theirs_failed"] == 1 and "the wrong bytes have arrived" in cell["why"]["ours"], cell
    assert any("the wrong bytes have arrived" in cell["why"]["theirs"] for cell in cells), cells


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]](*sys.argv[2:])
