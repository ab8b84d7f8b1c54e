#!/usr/bin/env python3
"""Railyard beside others, in turns: `benchmark/compare.py --help` for the stock UCX plugin in the same stock host,
`benchmark/compare.py libfabric --help` for the stock LIBFABRIC plugin and `benchmark/compare.py mooncake --help` for Mooncake, both on the
simulated EFA machine.

Not called `compare`: this folder is on the include path of flow-bench, and <compare> is a header of C++.
"""
import os
import pathlib
import sys

if __name__ == "__main__":
    words = sys.argv[1:]
    name = "measure.py"
    if words[:1] in (["libfabric"], ["mooncake"]):
        name, words = f"beside_{words[0]}.py", words[1:]
    program = pathlib.Path(__file__).resolve().parent / "side_by_side" / name
    os.execv(sys.executable, [sys.executable, "-B", str(program), *words])
