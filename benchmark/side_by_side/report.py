"""What benchmark/compare.py has measured: as a table of ratios, as JSON, as a picture."""

import collections
import dataclasses
import html
import json
import math
import os
import platform
import statistics
import time
import typing

WIDTH, HEIGHT, LEFT, TOP = 62, 22, 300, 60  # of the picture's cells, and where they begin


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
                if line.startswith("model name")), "unknown")
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} CPUs ({cpu}), Linux {platform.release()}"


def words_of(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def row_of_transport(key, cell):
    transport, thread, _ = key
    many = f", {cell['window']} outstanding" if cell["window"] > 1 else ""
    return f"{transport}, thread {'on' if thread else 'off'}, {cell['op']}{', notification' if cell['notify'] else ''}{many}"


@dataclasses.dataclass(frozen=True)
class Style:
    """Whom ours is compared with, and where that goes: the picture's name, and that of the page's markers."""

    against: str
    whom: str  # in the picture's title
    name: str = "compare"
    row: typing.Callable = row_of_transport  # words of a cell's row, by its key and itself
    has_rates: bool = False  # a table of operations and bytes a second, too

    @property
    def markers(self):
        return f"<!-- {self.name}: begin -->", f"<!-- {self.name}: end -->"


class Ratio:
    """Of one cell: how many times as fast as theirs ours is, and in how many rounds a side has failed."""

    def __init__(self, ours, theirs):
        self.rounds, self.ours_failed, self.theirs_failed = len(ours), ours.count(None), theirs.count(None)
        pairs = [(a, b) for a, b in zip(ours, theirs) if a and b]
        self.ratios = sorted(b / a for a, b in pairs)
        self.ours_us = statistics.median([a for a in ours if a]) if any(ours) else None
        self.theirs_us = statistics.median([b for b in theirs if b]) if any(theirs) else None
        self.median = statistics.median(self.ratios) if self.ratios else None

    def failures(self):
        for side, failed in (("ours", self.ours_failed), ("theirs", self.theirs_failed)):
            if failed:
                yield f"{side} failed" + (f" in {failed} of {self.rounds} rounds" if failed < self.rounds else "")

    def text(self):
        parts = list(self.failures())
        if self.median is not None:
            mark = "**" if self.median < 1 else ""
            parts.insert(0, f"{mark}{self.median:.2f}{mark} ({self.ratios[0]:.2f} to {self.ratios[-1]:.2f})")
        return ", ".join(parts)


def rates_text(us, cell):
    """Operations and bytes a second where a transfer takes `us`."""
    if us is None:
        return "failed"
    operations = cell["batch"] * 1e6 / us
    return f"{operations:,.0f}/s, {operations * cell['size'] / 1e6:,.0f} MB/s"


class Report:
    def __init__(self, results, options, style=None):
        self.style = style or Style(options.against, f"stock {options.against}")
        self.cells = {key: result["cell"] for key, result in results.items()}
        self.ratios = {key: Ratio(result["ours"], result["theirs"]) for key, result in results.items()}
        self.reasons = {key: result.get("why", {}) for key, result in results.items()}
        self.facts = f"{machine()}; {options.rounds} rounds of {options.seconds} s a cell"

    def complete(self):
        """Ours has failed in no round."""
        return bool(self.ratios) and not any(ratio.ours_failed for ratio in self.ratios.values())

    def grid(self, text):
        """Rows (words) of {column: text of a cell's key}, and the columns in order."""
        rows, columns = {}, []
        for key, cell in self.cells.items():
            column = (cell["size"], cell["batch"])
            rows.setdefault(self.style.row(key, cell), {})[column] = text(key)
            if column not in columns:
                columns.append(column)
        return rows, sorted(columns)

    def lines(self, head, rows, columns):
        heads = [head] + [f"{words_of(size)} x {batch}" for size, batch in columns]
        lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        return lines + ["| " + " | ".join([row] + [found.get(column, "") for column in columns]) + " |" for row, found in rows.items()]

    def failed(self):
        """What went wrong, and in how many cells."""
        counted = collections.Counter((side, reason) for reasons in self.reasons.values() for side, reason in reasons.items())
        return [f"* {side} failed in {count} cells: {reason}" for (side, reason), count in sorted(counted.items())]

    def rates(self):
        """Rows of ours and of theirs."""
        rows = {}
        ours, columns = self.grid(lambda key: rates_text(self.ratios[key].ours_us, self.cells[key]))
        theirs, _ = self.grid(lambda key: rates_text(self.ratios[key].theirs_us, self.cells[key]))
        for row in ours:
            rows |= {f"{row}: ours": ours[row], f"{row}: theirs": theirs[row]}
        return self.lines("operations and bytes a second", rows, columns)

    def table(self):
        lines = self.lines("time of theirs / ours", *self.grid(lambda key: self.ratios[key].text()))
        medians = [ratio.median for ratio in self.ratios.values() if ratio.median is not None]
        if medians:
            good = sum(median >= 1 for median in medians)
            lines.append(f"\n{good} of {len(medians)} cells at 1 or above; geometric mean {statistics.geometric_mean(medians):.2f}.")
        for side, other in (("ours", "theirs"), ("theirs", "ours")):
            lost = [ratio for ratio in self.ratios.values() if getattr(ratio, f"{side}_failed") == ratio.rounds]
            if lost:
                ended = sum(not getattr(ratio, f"{other}_failed") for ratio in lost)
                lines.append(f"In {len(lost)} more {side} failed in every round, {other} in none in {ended} of them.")
        if self.failed():
            lines += ["", *self.failed()]
        if self.style.has_rates:
            lines += ["", *self.rates()]
        return "\n".join(lines)

    def json(self):
        cells = [{"transport": key[0], "progress_thread": key[1], **self.cells[key], "ours_us": ratio.ours_us,
                  "theirs_us": ratio.theirs_us, "ratio": ratio.median, "ratios": ratio.ratios, "rounds": ratio.rounds,
                  "ours_failed": ratio.ours_failed, "theirs_failed": ratio.theirs_failed, "why": self.reasons[key]}
                 for key, ratio in self.ratios.items()]
        return json.dumps({"version": 1, "against": self.style.against, "facts": self.facts, "cells": cells}, indent=1) + "\n"

    def svg(self):
        rows, columns = self.grid(lambda key: self.ratios[key].median)
        width, height = LEFT + WIDTH * len(columns) + 10, TOP + HEIGHT * len(rows) + 34
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
                 f'<rect width="{width}" height="{height}" fill="white"/>',
                 f'<text x="10" y="18" font-size="14">Time of a transfer, {self.style.whom} / Railyard: above 1 Railyard is faster</text>']
        for i, (size, batch) in enumerate(columns):
            x = LEFT + WIDTH * i + WIDTH / 2
            parts += [f'<text x="{x}" y="{TOP - 20}" text-anchor="middle">{words_of(size)}</text>',
                      f'<text x="{x}" y="{TOP - 6}" text-anchor="middle" fill="#555">x {batch}</text>']
        for j, (row, found) in enumerate(rows.items()):
            y = TOP + HEIGHT * j
            parts.append(f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{html.escape(row)}</text>')
            for i, column in enumerate(columns):
                if column not in found:
                    continue
                median = found[column]
                text = "failed" if median is None else f"{median:.2f}" if median < 10 else f"{median:.0f}"
                parts.append(f'<rect x="{LEFT + WIDTH * i + 1}" y="{y + 1}" width="{WIDTH - 2}" height="{HEIGHT - 2}" '
                             f'fill="{colour(median)}"/><text x="{LEFT + WIDTH * i + WIDTH / 2}" y="{y + 15}" '
                             f'text-anchor="middle">{text}</text>')
        parts += [f'<text x="10" y="{height - 12}" fill="#555">{html.escape(self.facts)}</text>', "</svg>"]
        return "\n".join(parts) + "\n"

    def deliver(self, options, docs):
        """Prints the table, and writes what the options ask for; the exit status of the whole run."""
        print(self.table())
        if options.json:
            options.json.write_text(self.json())
        if options.svg:
            options.svg.write_text(self.svg())
        if options.write:
            self.write(docs)
        return 0 if self.complete() else 1

    def write(self, docs):
        page = docs / "benchmarks.md"
        begin, end = self.style.markers
        head, rest = page.read_text(encoding="utf-8").split(begin, 1)
        body = f"Measured {self.facts}.\n\n{self.table()}"
        page.write_text(f"{head}{begin}\n{body}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
        (docs / f"images/{self.style.name}.svg").write_text(self.svg(), encoding="utf-8")


def colour(median):
    """White at 1, green up to 4, red down to 1/4; grey where there is none."""
    if median is None:
        return "#dddddd"
    strength = max(-1.0, min(1.0, math.log(median) / math.log(4)))
    pale = round(255 - 130 * abs(strength))
    return f"#{pale:02x}ff{pale:02x}" if strength >= 0 else f"#ff{pale:02x}{pale:02x}"
