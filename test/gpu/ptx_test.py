#!/usr/bin/env python3
"""The kernels in a header compile for every architecture from sm_70 on that this ptxas knows.  ptx_test.py HEADER [PTXAS]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77


def architectures(ptxas):
    """Plain ones, sm_70 and newer."""
    text = subprocess.run([ptxas, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    return sorted({int(number) for number in re.findall(r"'sm_(\d+)'", text) if int(number) >= 70})


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        source = re.search(r'R"ptx\((.*?)\)ptx"', file.read(), re.DOTALL).group(1)
    ptxas = sys.argv[2] if len(sys.argv) > 2 else shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    if not os.access(ptxas, os.X_OK):
        print("no ptxas here: it comes with the CUDA Toolkit")
        return SKIPPED
    found = architectures(ptxas)
    if not found:
        print(f"{ptxas} names no architecture from sm_70 on")
        return 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "kernels.ptx")
        with open(path, "w", encoding="utf-8") as file:
            file.write(source)
        for architecture in found:
            done = subprocess.run([ptxas, f"--gpu-name=sm_{architecture}", "--warning-as-error", path, "-o",
                                   os.path.join(folder, "out")], capture_output=True, text=True, check=False, timeout=60)
            if done.returncode != 0:
                print(f"sm_{architecture}: {done.stdout}{done.stderr}")
                failed += 1
    print(f"{len(found) - failed} of {len(found)} architectures: {', '.join(f'sm_{number}' for number in found)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
