#!/usr/bin/env python3
"""A manual page is good roff and has the options of its program, no more and no less.  man_pages.py PAGE [PROGRAM]

Looks at the page as a reader sees it, and at the program's --help as a user sees it: not by way of scripts/tool-pages, which
writes the one from the other.
"""
import re
import shutil
import subprocess
import sys

import common

LIMIT = 30


def output_of(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False,
                          stdin=subprocess.DEVNULL, **more)
    return done.stdout, done.stderr


def bad_roff(page):
    yield from output_of(["mandoc", "-T", "lint", "-W", "warning", page])[0].splitlines()
    yield from output_of(["groff", "-man", "-Tutf8", "-ww", "-z", page])[1].splitlines()


def named_options(lines):
    return {word for line in lines for word in re.findall(r"(?<!\S)--?\w[\w-]*", line)}


def options_in_page(page):
    shown = output_of(["groff", "-man", "-Tascii", "-P-cbou", page])[0]
    # A line at the indentation of terms, up to the text that may follow a short one.
    return named_options(line.replace(",", "").strip().split("  ")[0]
                         for line in shown.splitlines() if re.match(r" {7}-", line))


def options_in_help(program):
    texts = [output_of([program, "--help"])[0]]
    commands = re.findall(r"^  (\w+) ", texts[0].partition("Subcommands:")[2], re.MULTILINE)
    texts += [output_of([program, command, "--help"])[0] for command in commands]
    return named_options(re.sub(r"[,={]", " ", re.sub(r"Excludes:.*", "", line[:30]))
                         for text in texts for line in text.splitlines() if re.match(r"  -", line))


def findings(page, program):
    yield from bad_roff(page)
    if program:
        in_page, in_help = options_in_page(page), options_in_help(program)
        if not in_help:
            yield f"{program} --help names no option"
        for name in sorted(in_help - in_page):
            yield f"{page}: {name} of --help is missing; scripts/update-docs writes it"
        for name in sorted(in_page - in_help):
            yield f"{page}: {name} is no option of --help; scripts/update-docs takes it out"


if __name__ == "__main__":
    missing = [name for name in ("mandoc", "groff") if not shutil.which(name)]
    if missing:
        print(f"not installed: {' '.join(missing)}")
        sys.exit(common.SKIPPED)
    common.report("man_pages", list(findings(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")))
