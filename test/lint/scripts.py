#!/usr/bin/env python3
"""Shell scripts pass shellcheck, Python ones compile, and the workflow runs all that .ci/run does.  scripts.py ROOT"""
import os
import re
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


def stages_left_out(root, files):
    """Of .ci/run, which the workflow runs in parts."""
    run, workflow = ".ci/run", ".github/workflows/ci.yml"
    if run not in files or workflow not in files:
        return
    there = re.search(r"^#.* stages: (.*?) *\(default: all\)$", common.read(root, run), re.MULTILINE)
    named = " ".join(re.findall(r"^ *stages: (.*)$", common.read(root, workflow), re.MULTILINE)).split()
    for stage in there[1].split() if there else []:
        if stage not in named:
            yield f"{workflow}:1: no part has the stage {stage} of {run}"


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
    yield from stages_left_out(root, files)
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
