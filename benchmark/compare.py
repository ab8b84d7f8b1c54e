#!/usr/bin/env python3
"""Railyard beside others, in turns: `benchmark/compare.py --help` for the stock UCX plugin in the same stock host,
`benchmark/compare.py libfabric --help` for the stock LIBFABRIC plugin and `benchmark/compare.py mooncake --help` for Mooncake, both on the
simulated EFA machine.

Not called `compare`: this folder is on the include path of flow-bench, and <compare> is a header of C++.
"""
import importlib
import pathlib
import sys

if __name__ == "__main__":
    words = sys.argv[1:]
    name, called = "measure", "compare.py"
    if words[:1] in (["libfabric"], ["mooncake"]):
        name, called, words = f"beside_{words[0]}", f"compare.py {words[0]}", words[1:]
    # In this process, so that usage and errors call the command what it was called.
    sys.argv = [called, *words]
    sys.path[0] = str(pathlib.Path(__file__).resolve().parent / "side_by_side")
    sys.dont_write_bytecode = True
    sys.exit(importlib.import_module(name).main())
