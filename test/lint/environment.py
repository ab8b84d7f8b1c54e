#!/usr/bin/env python3
"""The settings have one reader of the environment: nobody else in src calls getenv.  environment.py ROOT"""
import re
import sys

import common

MAY = {"src/common/params.cpp", "src/common/log.cpp", "src/host/plugin_loader.cpp"}
CALL = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")


def findings(root):
    for path in common.cpp_files(root, "src"):
        if path in MAY:
            continue
        text = common.without_noise(common.read(root, path))
        for match in CALL.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{line}: reads the environment; settings belong into src/common/params.def"


if __name__ == "__main__":
    common.report("environment", list(findings(sys.argv[1])))
