#!/usr/bin/env python3
"""The settings have one reader of the environment: nobody else in src calls getenv.  Of the
variables that engines do not know they warn, so that those of our tools, scripts and tests stand in a list.

    environment.py ROOT
"""
import re
import sys

import common

LIST = "src/common/variables.cpp"
MAY = {"src/common/params.cpp", "src/common/log.cpp", "src/host/plugin_loader.cpp", LIST}
CALL = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
READ = re.compile(r"""(?:getenv\(|environ(?:\.get\(|\[))\s*["'](RAILYARD_\w+)|\$\{?(RAILYARD_\w+)""")


def listed(root):
    """The names of the list, those of settings and what tests may begin with."""
    names = set()
    for path in common.cpp_files(root, "src"):
        if path == LIST:
            names |= set(re.findall(r'"(RAILYARD_\w+)"', common.read(root, path)))
        elif path == "src/common/params.def":
            settings = re.findall(r"^RAILYARD_PARAM\(\w+, (\w+)", common.read(root, path), re.MULTILINE)
            names |= {"RAILYARD_" + name.upper() for name in settings}
    return names


def unlisted(root):
    known = listed(root)
    if not known:
        return
    for path in common.tracked_files(root):
        if path.endswith((".md", ".1")) or not path.startswith(("src/", "benchmark/", "test/", "scripts/", "examples/", ".ci/")):
            continue
        text = common.read(root, path)
        for match in READ.finditer(text):
            name = match.group(1) or match.group(2)
            if name not in known and not name.startswith("RAILYARD_TEST_"):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path}:{line}: reads {name}, of which engines warn: put it into {LIST}"


def findings(root):
    for path in common.cpp_files(root, "src"):
        if path in MAY:
            continue
        text = common.without_noise(common.read(root, path))
        for match in CALL.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: reads the environment; settings belong into src/common/params.def"
    yield from unlisted(root)


if __name__ == "__main__":
    common.report("environment", list(findings(sys.argv[1])))
