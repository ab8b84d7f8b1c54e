#!/usr/bin/env python3
"""Makes a folder that runs the GPU suite on a machine with nothing but a driver.  pack.py BUILD_DIR OUT_DIR [--most MIB]

Programs, plugin, and every library that they need, the C library and its loader with them: what the machine has of these does
not matter. The driver is the machine's own.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ["test/gpu/gpu_suite", "benchmark/railyard-bench", "src/tools/railyard-info"]
PLUGIN = "src/plugin/libplugin_RAILYARD.so"
# Of the C library, for drivers that still ask for its parts by name.
PARTS = ["libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"]


def needed(path):
    """{name: file} of what the loader takes for a program or library here."""
    text = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=True, timeout=60).stdout
    if "not found" in text:
        raise SystemExit(f"pack.py: {path} lacks a library here:\n{text}")
    found = {name: file for name, file in re.findall(r"^\s*(\S+) => (/\S+) \(", text, re.MULTILINE)}
    for file in re.findall(r"^\s*(/\S+) \(", text, re.MULTILINE):
        found[os.path.basename(file)] = file  # the loader itself
    return found


def libraries(build):
    found = {}
    for path in PROGRAMS + [PLUGIN]:
        found.update(needed(build / path))
    folder = pathlib.Path(found["libc.so.6"]).parent
    for name in PARTS:
        if (folder / name).exists():
            found.setdefault(name, str(folder / name))
    return found


def stripped(source, target):
    """A copy without debugging information."""
    subprocess.run(["strip", "--strip-debug", "-o", str(target), str(source)], check=True, timeout=60)
    shutil.copymode(source, target)


def pack(build, out):
    if out.exists():
        shutil.rmtree(out)
    for folder in ("bin", "lib", "plugins"):
        (out / folder).mkdir(parents=True)
    found = libraries(build)
    for name, file in found.items():
        shutil.copy(file, out / "lib" / name)  # follows links
    for path in PROGRAMS:
        name = os.path.basename(path)
        stripped(build / path, out / "lib" / f"{name}.program")
        shutil.copy(HERE / "start", out / "bin" / name)
    stripped(build / PLUGIN, out / "plugins" / os.path.basename(PLUGIN))
    shutil.copy(HERE / "run-gpu-suite", out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=64, help="MiB that it may take")
    options = parser.parse_args()
    pack(options.build, options.out)
    size = sum(file.stat().st_size for file in options.out.rglob("*") if not file.is_symlink()) / 2**20
    print(f"{options.out}: {size:.1f} MiB")
    if size > options.most:
        print(f"pack.py: more than {options.most} MiB")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
