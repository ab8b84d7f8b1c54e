#!/usr/bin/env python3
"""Railyard beside the stock UCX plugin, in the same stock host: `benchmark/compare.py --help`.

Not called `compare`: this folder is on the include path of flow-bench, and <compare> is a header of C++.
"""
import os
import pathlib
import sys

if __name__ == "__main__":
    program = pathlib.Path(__file__).resolve().parent / "side_by_side/measure.py"
    os.execv(sys.executable, [sys.executable, "-B", str(program), *sys.argv[1:]])
