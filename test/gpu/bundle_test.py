#!/usr/bin/env python3
"""The bundle of test/gpu/run: whole, small enough, and it runs, here on the fake driver.  bundle_test.py BUILD_DIR OUT_DIR DRIVER_DIR"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

BUILD, OUT, DRIVER = (pathlib.Path(word) for word in sys.argv[1:4])
PACK = pathlib.Path(__file__).resolve().parent / "pack.py"
# Of one kind each: two processes, one process, streams, what is refused.
CASES = "*EveryByteArrivesOfAnySize/tcp_vram_vram:Device/*vram_dram:*WorkBehindARead*/shm_vram:Refusals.*:Figures.TimeInPost"


def expect(condition, message, done=None):
    if not condition:
        print(message)
        if done is not None:
            print(done.stdout, done.stderr, sep="\n")
        sys.exit(1)


def run(*words, **more):
    return subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=150, **more)


def main():
    done = run(sys.executable, "-B", PACK, BUILD, OUT)
    expect(done.returncode == 0, "packing failed", done)
    print(done.stdout.strip())
    loader = next((OUT / "lib").glob("ld-linux*"))
    for program in [*(OUT / "lib").glob("*.program"), *(OUT / "plugins").iterdir()]:
        listed = run(loader, "--library-path", OUT / "lib", "--list", program, env={})
        expect(listed.returncode == 0, f"{program} cannot be loaded", listed)
        outside = [path for path in re.findall(r"=> (/\S+)", listed.stdout) if not path.startswith(f"{OUT}/lib/")]
        # The loader is named by its full path in every program, and is the one that runs already.
        outside = [path for path in outside if not os.path.basename(path).startswith("ld-linux")]
        expect(not outside, f"{program} takes from the machine: {outside}", listed)

    found = OUT / "results.json"
    environment = {name: os.environ[name] for name in ("HWLOC_XMLFILE", "CUDA_VISIBLE_DEVICES")}
    environment.update({"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LD_LIBRARY_PATH": str(DRIVER)})
    done = run(OUT / "run-gpu-suite", "--brief", "--json", found, f"--gtest_filter={CASES}", env=environment, cwd="/")
    expect(done.returncode == 0, "the suite failed", done)
    results = json.loads(found.read_text(encoding="utf-8"))
    expect(results["fake"] and results["failed"] == 0 and results["passed"] >= 12, f"not what was asked for: {results}", done)
    expect(len(results["figures"]) > 4, f"no figures: {results}", done)
    done = run(OUT / "bin/railyard-bench", "--mem", "vram", "--sizes", "4K", "--iters", "20", env=environment, cwd="/")
    expect(done.returncode == 0 and "vram of GPU 0" in done.stdout, "railyard-bench failed", done)
    shutil.rmtree(OUT)
    print(f"{results['passed']} cases passed in the bundle")


main()
