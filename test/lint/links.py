#!/usr/bin/env python3
"""Files that the documentation links to exist.  links.py ROOT"""
import os
import posixpath
import re
import sys

import common

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def findings(root):
    for path in common.tracked_files(root):
        if not path.endswith(".md"):
            continue
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:|#", target):
                    continue
                file = posixpath.normpath(posixpath.join(posixpath.dirname(path), target.split("#")[0]))
                if not os.path.exists(os.path.join(root, file)):
                    yield f"{path}:{number}: links to {target}, which is not there"


if __name__ == "__main__":
    common.report("links", list(findings(sys.argv[1])))
