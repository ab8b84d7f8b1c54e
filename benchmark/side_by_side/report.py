"""What benchmark/compare.py has measured: as a table of ratios, as JSON, as a picture."""

import html
import json
import math
import os
import platform
import statistics
import time

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
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


class Ratio:
    """Of one cell: how many times as fast as theirs ours is."""

    def __init__(self, ours, theirs):
        pairs = [(a, b) for a, b in zip(ours, theirs) if a and b]
        self.ratios = sorted(b / a for a, b in pairs)
        self.ours_us = statistics.median([a for a in ours if a]) if any(ours) else None
        self.theirs_us = statistics.median([b for b in theirs if b]) if any(theirs) else None
        self.median = statistics.median(self.ratios) if self.ratios else None

    def text(self):
        if self.median is None:
            return "ours failed" if self.ours_us is None else "theirs failed"
        mark = "**" if self.median < 1 else ""
        return f"{mark}{self.median:.2f}{mark} ({self.ratios[0]:.2f} to {self.ratios[-1]:.2f})"


class Report:
    def __init__(self, results, options):
        self.cells = {key: result["cell"] for key, result in results.items()}
        self.ratios = {key: Ratio(result["ours"], result["theirs"]) for key, result in results.items()}
        self.options = options
        self.facts = f"{machine()}; {options.rounds} rounds of {options.seconds} s a cell"

    def complete(self):
        return bool(self.ratios) and all(ratio.ours_us is not None for ratio in self.ratios.values())

    def grid(self):
        """Rows (words) of {column: ratio}, and the columns in order."""
        rows, columns = {}, []
        for key, cell in self.cells.items():
            transport, thread, _ = key
            many = f", {cell['window']} outstanding" if cell["window"] > 1 else ""
            row = (f"{transport}, thread {'on' if thread else 'off'}, {cell['op']}"
                   f"{', notification' if cell['notify'] else ''}{many}")
            column = (cell["size"], cell["batch"])
            rows.setdefault(row, {})[column] = self.ratios[key]
            if column not in columns:
                columns.append(column)
        return rows, sorted(columns)

    def table(self):
        rows, columns = self.grid()
        head = ["time of theirs / ours"] + [f"{words_of(size)} x {batch}" for size, batch in columns]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for row, found in rows.items():
            texts = [found[column].text() if column in found else "" for column in columns]
            lines.append("| " + " | ".join([row] + texts) + " |")
        medians = [ratio.median for ratio in self.ratios.values() if ratio.median is not None]
        if medians:
            good = sum(median >= 1 for median in medians)
            lines.append(f"\n{good} of {len(self.ratios)} cells at 1 or above; geometric mean {statistics.geometric_mean(medians):.2f}.")
        return "\n".join(lines)

    def json(self):
        cells = [{"transport": key[0], "progress_thread": key[1], **self.cells[key], "ours_us": ratio.ours_us,
                  "theirs_us": ratio.theirs_us, "ratio": ratio.median, "ratios": ratio.ratios} for key, ratio in self.ratios.items()]
        return json.dumps({"version": 1, "against": self.options.against, "facts": self.facts, "cells": cells}, indent=1) + "\n"

    def svg(self):
        rows, columns = self.grid()
        width, height = LEFT + WIDTH * len(columns) + 10, TOP + HEIGHT * len(rows) + 34
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
                 f'<rect width="{width}" height="{height}" fill="white"/>',
                 f'<text x="10" y="18" font-size="14">Time of a transfer, stock {self.options.against} / Railyard: above 1 Railyard is faster</text>']
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
                median = found[column].median
                text = "failed" if median is None else f"{median:.2f}" if median < 10 else f"{median:.0f}"
                parts.append(f'<rect x="{LEFT + WIDTH * i + 1}" y="{y + 1}" width="{WIDTH - 2}" height="{HEIGHT - 2}" '
                             f'fill="{colour(median)}"/><text x="{LEFT + WIDTH * i + WIDTH / 2}" y="{y + 15}" '
                             f'text-anchor="middle">{text}</text>')
        parts += [f'<text x="10" y="{height - 12}" fill="#555">{html.escape(self.facts)}</text>', "</svg>"]
        return "\n".join(parts) + "\n"

    def write(self, docs):
        page = docs / "benchmarks.md"
        head, rest = page.read_text(encoding="utf-8").split(BEGIN, 1)
        body = f"Measured {self.facts}.\n\n{self.table()}"
        page.write_text(f"{head}{BEGIN}\n{body}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
        (docs / "images/compare.svg").write_text(self.svg(), encoding="utf-8")


def colour(median):
    """White at 1, green up to 4, red down to 1/4; grey where there is none."""
    if median is None:
        return "#dddddd"
    strength = max(-1.0, min(1.0, math.log(median) / math.log(4)))
    pale = round(255 - 130 * abs(strength))
    return f"#{pale:02x}ff{pale:02x}" if strength >= 0 else f"#ff{pale:02x}{pale:02x}"
