#!/usr/bin/env python3
"""benchmark/table.py: what becomes of a page's table."""
import argparse
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import shlex
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmark"))
import table  # noqa: E402


class Figure(table.Bound):
    """Has been measured already."""

    def __init__(self, name, value):
        super().__init__(name, 1, True, " us")
        self.value = value

    def command(self):
        return f"measure {self.name}"

    def shown(self, value):
        return f"{value:.3g}"

    def measure(self):
        return {"host": {"date": "2026-01-02T03:04"}}, self.value


def run(page, **options):
    """Exit status, and what is said on standard output and standard error."""
    figures = [Figure("speed", 2), Figure("length", 0.5)]
    columns = [table.FIGURE, table.COMMAND, table.BOUND, table.MEASURED, table.HOLDS]
    wanted = argparse.Namespace(**({"write": False, "only": ""} | options))
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()) as complained:
        status = table.measure(figures, table.Table(page, columns), wanted)
    return status, said.getvalue(), complained.getvalue()


def case_names():
    """Each figure's command, as the page has it, is one that a shell takes, and measures that figure alone."""
    spec = importlib.util.spec_from_file_location("benchmark_numbers", ROOT / "benchmark/numbers.py")  # Python has a module numbers
    numbers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(numbers)
    for quick in (False, True):
        figures = numbers.figures(quick)
        for figure in figures:
            words = shlex.split(figure.command())
            if words[0] == "numbers.py":
                matched = [other.name for other in figures if re.search(words[words.index("--only") + 1], other.name)]
                assert matched == [figure.name], (figure.command(), matched)


def case_without_valgrind():
    """What is counted with it fails, and says so: a row that is not there would be missed by nobody."""
    spec = importlib.util.spec_from_file_location("benchmark_numbers", ROOT / "benchmark/numbers.py")
    numbers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(numbers)
    path = os.environ["PATH"]
    try:
        os.environ["PATH"] = "/nowhere"
        counted = [figure for figure in numbers.figures(True) if figure.name.startswith("instructions a descriptor")]
        with contextlib.redirect_stderr(io.StringIO()) as complained:
            assert len(counted) == 3 and all(figure.measure() == ({}, None) for figure in counted), counted
    finally:
        os.environ["PATH"] = path
    assert complained.getvalue().count("valgrind is not installed") == 3, complained.getvalue()


def case_hangs():
    """What does not end fails, and is told; whoever asked goes on."""
    figure = table.ProgramFigure(pathlib.Path("/bin/sleep"), "sleep", ["60"], None, 1, True)
    figure.limit_s = 0.1
    with contextlib.redirect_stderr(io.StringIO()) as complained:
        assert figure.measure() == ({}, None)
    assert "sleep: " in complained.getvalue() and "timed out" in complained.getvalue(), complained.getvalue()


def main():
    case_names()
    case_without_valgrind()
    case_hangs()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        before = "a\n<!-- numbers: begin -->\nstale\n<!-- numbers: end -->\nb\n"
        page.write_text(before, encoding="utf-8")
        status, said, _ = run(page, only="speed")
        assert (status, page.read_text(encoding="utf-8")) == (0, before), said
        assert "| speed | `measure speed` | >= 1 us | 2 | yes |" in said and "length" not in said, said
        assert run(page, only="nothing of the kind")[0] == 1  # who measures nothing has not found it right
        status, said, complained = run(page, only="speed", write=True)  # the other rows would be gone
        assert (status, said, page.read_text(encoding="utf-8")) == (2, "", before), (status, said)
        assert "--only" in complained, complained
        status, said, _ = run(page, write=True)
        after = page.read_text(encoding="utf-8")
        assert status == 1 and "| length | `measure length` | >= 1 us | 0.5 | **no** |" in after, after
        assert after.startswith("a\n") and after.endswith("\nb\n") and "stale" not in after and "Measured 2026-01-02, " in after, after


if __name__ == "__main__":
    main()
