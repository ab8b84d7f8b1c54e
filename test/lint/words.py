#!/usr/bin/env python3
"""No text that belongs to one machine or to how the work was organised.  words.py ROOT"""
import re
import sys

import common

# Written with character classes, so that this file does not find itself.
FORBIDDEN = [
    (re.compile(r"\b(sess[i]on|assist[a]nt|workp[l]ace)s?\b", re.IGNORECASE), "a word that is not about this project"),
    (re.compile(r"(?<![\w.$}~/-])/(work|root|home/\w+|Users/\w+)(?=[/\s\"'`)]|$)"), "a path of one machine"),
    (re.compile(r"\b(pypi\.o[r]g|pythonhosted\.o[r]g|deb(ian)?\.debian\.o[r]g|npmjs\.o[r]g|proxy\.golang\.o[r]g"
                r"|crates\.i[o]|rubygems\.o[r]g|maven\.o[r]g)\b"), "the host of a package registry"),
]


def findings(root):
    for path in common.tracked_files(root):
        text = common.read(root, path)
        if "\0" in text:
            continue
        lines = text.splitlines()
        for pattern, reason in FORBIDDEN:
            hits = [(number, match.group(0)) for number, line in enumerate(lines, 1)
                    if (match := pattern.search(line))]
            if hits:
                more = f" (and {len(hits) - 1} more lines)" if len(hits) > 1 else ""
                yield f"{path}:{hits[0][0]}: '{hits[0][1]}': {reason}{more}"


if __name__ == "__main__":
    common.report("words", list(findings(sys.argv[1])))
