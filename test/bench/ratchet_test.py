#!/usr/bin/env python3
"""benchmark/ratchet.py: what it makes of what it has counted.  ratchet_test.py CASE"""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmark"))
import ratchet  # noqa: E402
import table  # noqa: E402

ENVIRONMENT = "g++ 12.2.0, libfabric 1.17"


def figure(name, tolerance):
    return ratchet.Figure(name, None, tolerance, "things")


def judge(path, values, accept=False, reason="", gone=()):
    """Failures and what was printed of figures that were recorded as 100."""
    record = ratchet.Record(path, ENVIRONMENT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        failed = ratchet.judge(record, [(figure(name, tolerance), value) for name, tolerance, value in values], accept, reason, gone)
    return failed, printed.getvalue()


@contextlib.contextmanager
def recorded(**tolerances):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "ratchet.json"
        path.write_text(json.dumps({ENVIRONMENT: {name: {"value": 100, "tolerance": tolerance}
                                                  for name, tolerance in tolerances.items()}}), encoding="utf-8")
        yield path


def values_in(path):
    return {name: entry["value"] for name, entry in json.loads(path.read_text(encoding="utf-8"))[ENVIRONMENT].items()}


def case_compare():
    with recorded(allocations=0, instructions=0.02) as path:
        same, printed = judge(path, [("allocations", 0, 100), ("instructions", 0.02, 101.9)])
        assert same == 0 and "worse" not in printed and "better" not in printed, printed
        worse, printed = judge(path, [("allocations", 0, 101), ("instructions", 0.02, 102.1)])
        assert worse == 2, printed
        for wanted in ("worse  allocations: 100 -> 101 things", "worse  instructions: 100 -> 102.1 things", "--accept", "--reason"):
            assert wanted in printed, printed
        better, printed = judge(path, [("instructions", 0.02, 97)])
        assert better == 0 and "better instructions: 100 -> 97 things: tighten it with --accept" in printed, printed
        new, printed = judge(path, [("unheard of", 0, 1)])
        assert new == 1 and f"not recorded for {ENVIRONMENT}" in printed and "--accept" in printed, printed
        assert values_in(path) == {"allocations": 100, "instructions": 100}, "written without --accept"


def case_accept():
    with recorded(allocations=0, instructions=0.02) as path:
        failed, printed = judge(path, [("allocations", 0, 101), ("instructions", 0.02, 50)], accept=True)
        assert failed == 1 and values_in(path) == {"allocations": 100, "instructions": 100}, printed  # worse, without a reason
        failed, printed = judge(path, [("allocations", 0, 100), ("instructions", 0.02, 50), ("unheard of", 0, 1)], accept=True)
        assert failed == 0 and values_in(path) == {"allocations": 100, "instructions": 50, "unheard of": 1}, printed
        failed, printed = judge(path, [("allocations", 0, 101)], accept=True, reason="a cache")
        entry = json.loads(path.read_text(encoding="utf-8"))[ENVIRONMENT]["allocations"]
        assert failed == 0 and entry == {"value": 101, "tolerance": 0, "reason": "a cache"}, (entry, printed)


def case_gone():
    """What is recorded and not measured any more would hold for ever."""
    with recorded(allocations=0, instructions=0.02) as path:
        failed, printed = judge(path, [("instructions", 0.02, 100)], gone=["allocations"])
        assert failed == 1 and f"gone   allocations: recorded for {ENVIRONMENT}, and not measured" in printed and "--accept" in printed, printed
        assert values_in(path) == {"allocations": 100, "instructions": 100}, "written without --accept"
        failed, printed = judge(path, [("instructions", 0.02, 100)], accept=True, gone=["allocations"])
        assert failed == 0 and values_in(path) == {"instructions": 100}, printed


def case_chosen():
    """A pattern that matches nothing has found nothing right."""
    figures, rows = ratchet.chosen(None, "^post, 1")
    assert figures and rows and all(one.name.startswith("post, 1") for one in figures + [bound for bound, _ in rows]), (figures, rows)
    done = subprocess.run([sys.executable, "-B", ratchet.__file__, "--only", "no such figure"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1 and "--only 'no such figure' matches no figure's name" in done.stderr, done


def case_flatness():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        failed = ratchet.judge_flatness([(table.Bound("prepare", 1.1, False, ""), lambda: 1.05),
                                         (table.Bound("post", 1.1, False, ""), lambda: 1.2)])
    assert failed == 1 and "NOT FLAT post: 1.2, bound <= 1.1" in printed.getvalue(), printed.getvalue()


def case_recorded():
    """What CI compares with is there, for all that is measured."""
    figures = json.loads(ratchet.RECORD.read_text(encoding="utf-8"))[ENVIRONMENT]
    assert set(figures) == {one.name for one in ratchet.recorded_figures(None)}, figures.keys()
    posts = [entry["value"] for name, entry in figures.items() if name.startswith("post") and "allocations" in name]
    assert posts == [0, 0], posts


if __name__ == "__main__":
    globals()["case_" + sys.argv[1]]()
