#!/usr/bin/env python3
"""Includes follow the layers of docs/architecture.md: arrows only point down.  layers.py ROOT"""
import posixpath
import re
import sys

import common

RANK = {"common": 0, "topology": 1, "fabric": 1, "cuda": 1, "rail": 2, "manager": 3, "engine": 4, "stream": 5,
        "plugin": 6, "host": 6, "flow": 6, "tools": 6}
# Header of somebody else -> the only places (path prefixes) that include it. Tests may include what they test.
OUTSIDE = [
    (re.compile(r"^rdma/"), ("src/fabric/", "src/rail/", "benchmark/raw_", "test/")),
    (re.compile(r"^(cuda|cudaTypedefs|cuda_runtime(_api)?)\.h$"), ("src/cuda/", "src/stream/", "test/")),
    (re.compile(r"^hwloc(\.h$|/)"), ("src/topology/", "test/")),
    (re.compile(r"^(nixl_abi/|backend/backend_|nixl)"), ("src/plugin/", "src/host/", "include/nixl_abi/", "test/")),
]
BENCHMARK_MAY = {"common", "host"}
RAW_MAY = BENCHMARK_MAY | {"fabric"}  # the plain libfabric loop
FLOW_MAY = RAW_MAY | {"tools"}  # owners of the flow API's objects, beside the plain loop
OPENED_MAY = BENCHMARK_MAY | {"engine"}  # reads what an engine tells its peers
GPU_MAY = BENCHMARK_MAY | {"cuda"}  # the memory and the streams that a program brings, which the plugin does not make
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def included_layer(path, quote, name):
    """Layer that an include leads to, or None for anything outside src."""
    first = name.split("/")[0]
    if "/" in name and first in RANK:
        return first
    if quote == '"' and name.startswith("../"):
        return layer_of(posixpath.normpath(posixpath.join(posixpath.dirname(path), name)))
    return None


def problem_with(path, quote, name):
    for pattern, places in OUTSIDE:
        if pattern.match(name) and not path.startswith(places):
            return f"only under {', '.join(place for place in places if place != 'test/')}"
    target = included_layer(path, quote, name)
    if target is None:
        return None
    if path.startswith("include/"):
        return "a public header includes nothing from src"
    if path.startswith("benchmark/micro/"):
        return None  # counts what one layer costs, so it drives that layer
    if path.startswith("benchmark/"):
        allowed = (RAW_MAY if path.startswith("benchmark/raw_") else
                   FLOW_MAY if path.startswith("benchmark/flow/") else
                   OPENED_MAY if path.startswith("benchmark/opened.") else
                   GPU_MAY if path.startswith("benchmark/gpu.") else BENCHMARK_MAY)
        return None if target in allowed else f"the benchmark uses {', '.join(sorted(allowed))} only"
    own = layer_of(path)
    if own is None or own == target:
        return None
    if own not in RANK:
        return f"src/{own} is no layer: add it to docs/architecture.md and to this lint"
    if RANK[target] < RANK[own]:
        return None
    return f"{own} is {'beside' if RANK[target] == RANK[own] else 'below'} {target}"


def findings(root):
    for path in common.cpp_files(root, "src", "include", "benchmark"):
        text = common.read(root, path)
        for match in INCLUDE.finditer(text):
            problem = problem_with(path, match.group(1), match.group(2))
            if problem:
                line = text.count("\n", 0, match.start(2)) + 1
                yield f"{path}:{line}: includes {match.group(2)}: {problem}"


if __name__ == "__main__":
    common.report("layers", list(findings(sys.argv[1])))
