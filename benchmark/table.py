"""Figures with bounds, and the tables of them in the pages of docs: for numbers.py and reliability.py."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def build():
    """Builds build/release with all micro benchmarks, or with what NINJA_TARGETS names."""
    environment = {"NINJA_TARGETS": "all", **os.environ}
    subprocess.run([str(ROOT / "benchmark/run"), "--build-only"], stdin=subprocess.DEVNULL, check=True, env=environment)


class Bound:
    """What a figure promises: at least or at most so much."""

    def __init__(self, name, bound, at_least, unit):
        self.name, self.bound, self.at_least, self.unit = name, bound, at_least, unit

    def holds(self, value):
        return value >= self.bound if self.at_least else value <= self.bound

    def bound_text(self):
        return f"{'>=' if self.at_least else '<='} {self.bound:.4g}{self.unit}"

    def shown(self, value):
        return f"{value:.3g}{self.unit}"


class ProgramFigure(Bound):
    """A figure of one run of a program that prints a JSON document: its arguments, and how to read the value."""

    prefix = []  # of the command
    limit_s = 600

    def __init__(self, program, name, arguments, read, bound, at_least, unit="", unseen=()):
        super().__init__(name, bound, at_least, unit)
        self.program, self.arguments, self.read, self.unseen = program, arguments, read, unseen

    def command(self):
        return f"{self.program.name} {' '.join(self.arguments)}"

    def measure(self):
        command = [*self.prefix, str(self.program), *self.arguments, *self.unseen]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=self.limit_s, check=False)
            document = json.loads(done.stdout)
            return document, self.read(document) if done.returncode == 0 else None
        except subprocess.SubprocessError as error:  # it hangs: the others are measured nevertheless
            print(f"{self.name}: {error}", file=sys.stderr)
            return {}, None
        except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError):
            return {}, None


class Table:
    """Columns of a page's table: a name, and a function of a figure and its value."""

    def __init__(self, page, columns):
        self.page, self.columns = page, columns

    def head(self):
        return ["| " + " | ".join(name for name, _ in self.columns) + " |", "|" + "---|" * len(self.columns)]

    def row(self, figure, value):
        return "| " + " | ".join(text(figure, value) for _, text in self.columns) + " |"

    def write(self, lines):
        """Puts lines between the page's markers."""
        begin, end = "<!-- numbers: begin -->", "<!-- numbers: end -->"
        head, rest = self.page.read_text().split(begin, 1)
        self.page.write_text(head + begin + "\n" + "\n".join(lines) + "\n" + end + rest.split(end, 1)[1])


FIGURE = ("figure", lambda figure, _: figure.name)
COMMAND = ("command", lambda figure, _: f"`{figure.command()}`")
BOUND = ("bound", lambda figure, _: figure.bound_text())
MEASURED = ("measured", lambda figure, value: "failed" if value is None else figure.shown(value))
HOLDS = ("holds", lambda figure, value: "yes" if value is not None and figure.holds(value) else "**no**")


def machine(document):
    host = document.get("host", {})
    memory = host.get("memory_bytes", 0) / 2**30
    return (f"{host.get('date', '')[:10]}, {host.get('cpus', '?')} CPUs ({host.get('cpu', 'unknown')}), {memory:.0f} GiB, "
            f"Linux {host.get('kernel', '?')}, libfabric {host.get('libfabric', '?')}")


def parser(description, page):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--write", action="store_true", help=f"put the rows into {page.name} of docs")
    made.add_argument("--quick", action="store_true", help="short, to see that it works")
    made.add_argument("--only", default="", help="only figures whose name matches this regular expression")
    return made


def measure(figures, table, options):
    """Prints a row for each figure, writes the page where asked to; exit status 1 if one misses its bound, 2 for a usage error."""
    if options.write and options.only:
        print("--write puts all rows into the page, and is not for --only a few: leave one of the two out", file=sys.stderr)
        return 2
    lines, facts, missed = [], None, 0
    print("\n".join(table.head()), flush=True)
    for figure in figures:
        if not re.search(options.only, figure.name):
            continue
        document, value = figure.measure()
        facts = facts or (machine(document) if document else None)
        missed += value is None or not figure.holds(value)
        lines.append(table.row(figure, value))
        print(lines[-1], flush=True)
    print(f"\n{facts or 'nothing was timed'}")
    if options.write:
        table.write([f"Measured {facts}.", "", *table.head(), *lines])
    return 1 if missed or not lines else 0
