#!/usr/bin/env python3
"""A generated file holds what its generator prints.  same_text.py FILE COMMAND..."""
import difflib
import subprocess
import sys

import common


def findings(path, command):
    wanted = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    try:
        with open(path, encoding="utf-8") as file:
            present = file.read()
    except FileNotFoundError:
        present = ""
    lines = list(difflib.unified_diff(present.splitlines(), wanted.splitlines(), path, "generated", lineterm="", n=0))
    return [*lines, f"{path}: out of date; scripts/update-docs writes it anew"] if lines or present != wanted else []


if __name__ == "__main__":
    common.report("same_text", findings(sys.argv[1], sys.argv[2:]))
