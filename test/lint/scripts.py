#!/usr/bin/env python3
"""Shell scripts pass shellcheck, Python ones compile.  scripts.py ROOT"""
import os
import shutil
import subprocess
import sys

import common


def language_of(root, path):
    text = common.read(root, path)[:200]
    first = text.split("\n", 1)[0]
    if path.endswith(".sh") or first.startswith(("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env bash")) \
            or "\n# shellcheck shell=" in text:
        return "shell"
    if path.endswith(".py") or first.startswith("#!/usr/bin/env python3"):
        return "python"
    return None


def findings(root, shellcheck):
    files = {path: language_of(root, path) for path in common.tracked_files(root)}
    for path, language in files.items():
        if language == "python":
            try:
                compile(common.read(root, path), path, "exec")
            except SyntaxError as error:
                yield f"{path}:{error.lineno}: {error.msg}"
        if language and common.read(root, path).startswith("#!") and not os.access(os.path.join(root, path), os.X_OK):
            yield f"{path}:1: has a #! line and is not executable"
    shell = [path for path, language in files.items() if language == "shell"]
    if shellcheck and shell:
        command = [shellcheck, "-x", "-P", "SCRIPTDIR:.", "-f", "gcc", *shell]
        result = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
        yield from result.stdout.splitlines()
        if result.returncode > 1:
            yield result.stderr.strip()


if __name__ == "__main__":
    checker = shutil.which("shellcheck")
    found = list(findings(sys.argv[1], checker))
    if not found and not checker:
        print("shellcheck is not installed; the Python scripts were checked")
        sys.exit(common.SKIPPED)
    common.report("scripts", found)
