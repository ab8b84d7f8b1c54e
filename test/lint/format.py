#!/usr/bin/env python3
"""clang-format 14 would change nothing. Other versions format otherwise, so they are not asked.  format.py ROOT"""
import os
import re
import shutil
import subprocess
import sys

import common

VERSION = 14
FOLDERS = ("src", "include", "benchmark", "test")


def formatter():
    """Path of clang-format of the version, or None."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
            match = re.search(r"version (\d+)", text)
            if match and int(match.group(1)) == VERSION:
                return path
    return None


def findings(root, path_of_formatter):
    files = [path for path in common.cpp_files(root, *FOLDERS) if path.endswith((".cpp", ".h", ".c"))]
    if not files:
        return
    command = [path_of_formatter, "--dry-run", "-Werror", "--style=file", *files]
    result = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    found = re.findall(r"^(.+?):(\d+):\d+: error:", result.stderr, re.MULTILINE)
    for file, line in sorted(dict(reversed(found)).items()):
        yield f"{file}:{line}: clang-format would change this and what follows; scripts/format does it"
    if result.returncode and not found:
        yield result.stderr.strip()


if __name__ == "__main__":
    tool = formatter()
    if tool is None:
        print(f"clang-format {VERSION} is not installed")
        sys.exit(common.SKIPPED)
    if len(sys.argv) > 2 and sys.argv[2] == "--fix":
        os.chdir(sys.argv[1])
        subprocess.run([tool, "-i", *(path for path in common.cpp_files(".", *FOLDERS)
                                      if path.endswith((".cpp", ".h", ".c")))], check=True)
        sys.exit(0)
    common.report("format", list(findings(sys.argv[1], tool)))
