"""Runs railyard-bench as a user does, for the tests beside this file: TEST PROGRAM CASE [PLUGIN_DIR].

Each case is one meson test. Everything stays on the loopback interface and in this host's shared memory.
"""
import json
import os
import subprocess
import sys

PROGRAM, CASE = sys.argv[1], sys.argv[2]
PLUGIN_DIR = sys.argv[3] if len(sys.argv) > 3 else ""
LIMIT = 80
FAST = ["--iters", "200", "--window", "4"]
MATRIX = ["--iters", "40", "--window", "3", "--op", "both", "--sizes", "1,8,5000,300000", "--batch", "1,7"]
RAW = ["--raw-only"]
PLUGIN = ["--plugin-dir", PLUGIN_DIR]
RESULT_KEYS = {"op", "size", "batch", "rails", "notify", "pt", "mb_per_s", "ops_per_s", "p50_us", "p99_us", "p999_us",
               "raw_mb_per_s", "ratio_raw", "checked", "mem", "target_mem", "gpu", "target_gpu", "stream", "local_rail"}


def fail(message, done=None):
    print(f"{CASE}: {message}")
    if done is not None:
        print(f"$ {' '.join(done.args)}\nstatus {done.returncode}\n{done.stdout}\n{done.stderr}")
    sys.exit(1)


def run(*arguments, status=0, env=None):
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("RAILYARD_") and key != "NIXL_PLUGIN_DIR"}
    done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT, check=False, env={**environment, **(env or {})})
    if done.returncode != status:
        fail(f"status {done.returncode}, wanted {status}", done)
    return done


def expect_lost_output(*arguments):
    """What cannot be written to standard output is no success."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT, check=False)
    expect(done.returncode == 1 and "railyard-bench: cannot write" in done.stderr, "does not tell of lost output", done)
    done = subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                          check=False, preexec_fn=lambda: os.close(1))
    expect(done.returncode == 1 and "railyard-bench: cannot write" in done.stderr, "does not tell that there is no output", done)


def least_of(enough, attempt, tries=3):
    """Of what `attempt` took, in no more tries than it takes to get below `enough`: a busy machine only ever adds to it."""
    least = attempt()
    while least >= enough and tries > 1:
        tries -= 1
        least = min(least, attempt())
    return least


def expect(condition, message, done=None):
    if not condition:
        fail(message, done)


def results(*arguments, points):
    """Runs with --json - and checks the document's shape; every point must be checked and right."""
    done = run(*arguments, "--json", "-")
    document = json.loads(done.stdout)
    expect(document["version"] == 1 and isinstance(document["host"], dict), "no version or host", done)
    expect(len(document["results"]) == points, f"{len(document['results'])} results, wanted {points}", done)
    for result in document["results"]:
        expect(RESULT_KEYS <= result.keys(), f"missing keys: {RESULT_KEYS - result.keys()}", done)
        expect(result["checked"] is True, "not checked", done)
        expect(result["mb_per_s"] > 0 and result["ops_per_s"] > 0, "no rate", done)
        expect(0 < result["p50_us"] <= result["p99_us"] <= result["p999_us"], "percentiles out of order", done)
    return document["results"]


def simulated(check):
    """Over simulated EFA NICs, which the environment describes (meson.build): the target is a machine of its own."""
    namespace = f"bench-{os.getpid()}"
    os.environ.update({"SIMEFA_NAMESPACE": namespace, "SIMEFA_HOST": "initiator"})
    check()
    left = [name for name in os.listdir("/dev/shm") if namespace in name]
    expect(not left, f"left in /dev/shm: {left}")
