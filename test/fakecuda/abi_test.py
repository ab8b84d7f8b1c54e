#!/usr/bin/env python3
"""Our declarations of the CUDA driver's interface say what the Toolkit's cuda.h says.

    abi_test.py --compiler CXX [--toolkit DIR]

Writes one program from the names in include/cuda_abi, compiles it against each header, and compares what the two print:
values, sizes, offsets, types of functions. The Toolkit's headers are those in DIR, and those of two releases from the package
index, which are kept in build/ (or $RAILYARD_CACHE). Then compiles src/cuda against each of them.
Exit status: 0 equal, 1 not, 77 skipped (no header to compare with), with the reason on the last line.
"""
import argparse
import difflib
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ROOT / "include" / "cuda_abi"
SKIPPED = 77
DOWNLOAD_LIMIT_S = 120
# Package and the sha256 of its wheel; it holds headers and a static library.
RELEASES = {
    "nvidia-cuda-runtime-cu12==12.9.79": "25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3",
    "nvidia-cuda-runtime==13.5.37": "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
}
# Declared by the Toolkit only for those who ask for old interfaces.
INTERNAL_ONLY = {"cuCtxCreate_v2", "cuStreamGetCaptureInfo_v2"}
STRUCTS = {
    "CUipcMemHandle": ["reserved"],
    "CUmemLocation": ["type", "id"],
    "CUmemAllocationProp": ["type", "requestedHandleTypes", "location", "win32HandleMetaData",
                            "allocFlags.gpuDirectRDMACapable", "allocFlags.usage"],
    "CUmemAccessDesc": ["location", "flags"],
    "CUstreamBatchMemOpParams": [f"{kind}.{member}" for kind in ("waitValue", "writeValue")
                                 for member in ("operation", "address", "value", "value64", "flags", "alias")] +
                                ["flushRemoteWrites.flags", "memoryBarrier.flags"],
}


def program():
    text = (OURS / "cuda.h").read_text(encoding="utf-8")
    functions = (OURS / "cuda_functions.h").read_text(encoding="utf-8")
    lines = ["#include <cuda.h>", "#include <cstdio>", "#include <cstddef>", "#include <typeinfo>",
             "#define VALUE(x) std::printf(#x \" %lld\\n\", static_cast<long long>(x));",
             "#define FUNCTION(label, x) std::printf(\"%s %s %s\\n\", #label, TEXT(x), typeid(decltype(&x)).name());",
             "#define TEXT2(x) #x", "#define TEXT(x) TEXT2(x)", "int main() {"]
    for name in re.findall(r"^\s+(CU\w+) =", text, re.MULTILINE):
        lines.append(f"VALUE({name})")
    for name in re.findall(r"{ (CU_\w+) = 0", text):
        lines.append(f"VALUE({name})")
    for name in re.findall(r"^#define (CU_MEMHOST\w+)", text, re.MULTILINE):
        lines.append(f"VALUE({name})")
    for name in re.findall(r"^using (CU\w+) = \w+_enum;", text, re.MULTILINE):
        lines.append(f"VALUE(sizeof({name}))")
    for name, members in STRUCTS.items():
        lines.append(f"VALUE(sizeof({name})) VALUE(alignof({name}))")
        lines += [f"VALUE(offsetof({name}, {member}))" for member in members]
    for name in re.findall(r"CUDAAPI (cu\w+)\(", functions):
        if name not in INTERNAL_ONLY:
            lines.append(f"FUNCTION({name}, {name})")
    return "\n".join(lines + ["}"]) + "\n"


def printed(compiler, source, include, folder):
    executable = folder / "abi"
    command = [compiler, "-std=c++20", "-w", "-isystem", str(include), str(source), "-o", str(executable)]
    # Functions are named in decltype alone, so nothing has to be linked.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None, done.stderr
    return subprocess.run([executable], capture_output=True, text=True, check=True).stdout, ""


def cache():
    return pathlib.Path(os.environ.get("RAILYARD_CACHE") or ROOT / "build") / "cuda-headers"


def fetched(release, digest):
    """Folder of cuda.h of a release, from the package index unless it is here; else None and why."""
    folder = cache() / release.replace("==", "-")
    found = next(folder.glob("*.whl"), None)
    if not found:
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--only-binary=:all:", "--platform", "manylinux2014_x86_64", "--dest", str(folder), release]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return None, f"no end after {DOWNLOAD_LIMIT_S} s"
        found = next(folder.glob("*.whl"), None)
        if done.returncode != 0 or not found:
            return None, (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    if hashlib.sha256(found.read_bytes()).hexdigest() != digest:
        found.unlink()
        return None, f"{found.name} is not the file that was expected"
    include = folder / "include"
    if not (include / "cuda.h").exists():
        include.mkdir(exist_ok=True)
        with zipfile.ZipFile(found) as wheel:
            for name in wheel.namelist():
                if name.endswith("/include/cuda.h"):
                    (include / "cuda.h").write_bytes(wheel.read(name))
    return include, ""


def compile_layer(compiler, include):
    """What g++ says of src/cuda with that header; empty: nothing."""
    said = ""
    for source in sorted((ROOT / "src" / "cuda").glob("*.cpp")):
        command = [compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-isystem", str(include),
                   "-I", str(ROOT / "src"), str(source)]
        said += subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--toolkit")
    options = parser.parse_args()
    headers, reasons = {}, []
    if options.toolkit:
        headers[options.toolkit] = options.toolkit
    for release, digest in RELEASES.items():
        include, why = fetched(release, digest)
        if include:
            headers[release] = include
        else:
            reasons.append(f"{release}: {why}")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = folder / "abi.cpp"
        source.write_text(program(), encoding="utf-8")
        ours, said = printed(options.compiler, source, OURS, folder)
        if ours is None:
            print(said[:2000])
            return 1
        for label, include in headers.items():
            theirs, said = printed(options.compiler, source, include, folder)
            difference = said if theirs is None else "\n".join(difflib.unified_diff(
                ours.splitlines(), theirs.splitlines(), "ours", label, lineterm="", n=0))
            difference += compile_layer(options.compiler, include)
            failed = failed or bool(difference)
            print(difference or f"{label}: {len(ours.splitlines())} values and types are the same")
    for reason in reasons:
        print(reason)
    if failed:
        return 1
    if not headers:
        print(f"skipped: no cuda.h to compare with: {reasons[0]}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
