#!/usr/bin/env python3
"""railyard-bench as a user runs it.  program_test.py PROGRAM CASE [PLUGIN_DIR]

Each case is one meson test. Everything stays on the loopback interface and in this host's shared memory.
"""
import json
import os
import re
import socket
import subprocess
import sys
import tempfile

PROGRAM, CASE = sys.argv[1], sys.argv[2]
PLUGIN_DIR = sys.argv[3] if len(sys.argv) > 3 else ""
LIMIT = 80
FAST = ["--iters", "200", "--window", "4"]
MATRIX = ["--iters", "40", "--window", "3", "--op", "both", "--sizes", "1,8,5000,300000", "--batch", "1,7"]
RAW = ["--raw-only"]
PLUGIN = ["--plugin-dir", PLUGIN_DIR]
RESULT_KEYS = {"op", "size", "batch", "rails", "notify", "pt", "mb_per_s", "ops_per_s", "p50_us", "p99_us", "p999_us",
               "raw_mb_per_s", "ratio_raw", "checked", "mem", "target_mem", "gpu", "target_gpu", "stream"}


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


def usage():
    run("--help")
    for arguments in (["--op", "append"], ["--sizes", "0"], ["--sizes", "1G", "--batch", "64"], ["--param", "x"],
                      ["--role", "target"], ["--no-such-option"], ["--mem", "vram"]):
        done = run(*RAW, *arguments, status=2)
        expect(done.stderr.startswith("railyard-bench: "), "no message", done)
        expect(done.stdout == "", "usage errors belong on standard error", done)
    done = run(*RAW, "--provider", "nonsense", "--sizes", "8", status=1)
    expect("nonsense" in done.stderr and "libfabric offers" in done.stderr, "does not name what there is", done)
    done = run(*RAW, "--sizes", "8", "--json", "/no/such/dir/file", *FAST, status=1)
    expect("/no/such/dir/file" in done.stderr, "does not name the file", done)


def raw_loop():
    for provider in ("tcp", "shm"):
        for rails in ("1", "4"):
            results(*RAW, *MATRIX, "--provider", provider, "--rails", rails, points=16)
    done = run(*RAW, *FAST, "--sizes", "8", "--pt", "on")
    expect(re.search(r"bytes +batch .*MB/sec +usec/xfer +Mxfers/s +p50", done.stdout), "no table", done)
    expect(len(done.stdout.strip().splitlines()) == 3 and "\r" not in done.stderr, "more than a table", done)


def corrupt(side):
    for kind, text in (("data", "wrong data"), ("guard", "guard bytes")):
        for op in ("write", "read"):
            done = run(*side, *FAST, "--op", op, "--sizes", "8,4K", "--corrupt", kind, "--json", "-", status=1)
            expect(done.stderr.count(text) == 2 and "WRONG" in done.stderr, f"does not tell of {text}", done)
            for result in json.loads(done.stdout)["results"]:
                expect(result["checked"] is False and text in result["wrong"], "the result looks right", done)
    done = run(*side, *FAST, "--sizes", "8", "--corrupt", "data", "--no-check", "--json", "-")
    expect(json.loads(done.stdout)["results"][0]["checked"] is False, "checked without a check", done)


def stall(side):
    done = run(*side, "--sizes", "4K", "--seconds", "0.2", "--stall", "--timeout", "1", "--json", "-", status=1)
    expect(re.search(r"stalled: \w+ write of 4K.* outstanding", done.stderr), "does not say what stalled", done)
    expect("stalled" in json.loads(done.stdout)["error"], "the JSON does not tell of the stall", done)


def two_roles(side):
    target = subprocess.Popen([PROGRAM, *side, "--role", "target", "--peer", "127.0.0.1:0", "--param", "devices=lo",
                               "--provider", "tcp"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        line = target.stderr.readline()
        port = re.search(r"listening on .*:(\d+)", line)
        expect(port, f"the target says {line!r}")
        results(*side, *FAST, "--role", "initiator", "--peer", f"127.0.0.1:{port.group(1)}", "--provider", "tcp",
                "--param", "devices=lo", "--op", "both", "--sizes", "8,64K", points=4)
        expect(target.wait(timeout=20) == 0, f"the target ended with {target.returncode}")
    finally:
        target.kill()
        target.wait()
        target.stderr.close()


def plugin(provider):
    for rails in ("1", "4"):
        for found in results(*PLUGIN, *MATRIX, "--provider", provider, "--rails", rails, "--notify", "both", points=32):
            expect(found["rails"] == int(rails) and found["pt"] is False, f"wrong labels: {found}")


def plugin_progress_thread():
    for provider in ("tcp", "shm"):
        results(*PLUGIN, "--provider", provider, "--pt", "on", "--op", "both", "--sizes", "8,64K", "--batch", "1,16",
                "--notify", "both", "--iters", "50", "--window", "4", points=16)
    found = results(*PLUGIN, "--pt", "on", "--sizes", "4K", "--batch", "2000", "--window", "1", "--iters", "5",
                    "--post-time", points=1)
    expect(found[0]["post_p50_us"] > 0, f"no post time: {found}")


def simulated(check):
    """Over simulated EFA NICs, which the environment describes (meson.build): the target is a machine of its own."""
    namespace = f"bench-{os.getpid()}"
    os.environ.update({"SIMEFA_NAMESPACE": namespace, "SIMEFA_HOST": "initiator"})
    check()
    left = [name for name in os.listdir("/dev/shm") if namespace in name]
    expect(not left, f"left in /dev/shm: {left}")


def plugin_simulated(provider):
    for pt in ("off", "on"):
        for found in results(*PLUGIN, "--provider", provider, "--target-env", "SIMEFA_HOST=target", "--pt", pt,
                             "--op", "both", "--notify", "both", "--sizes", "1,8,5000,300000,5M", "--batch", "1,7",
                             "--iters", "20", "--window", "3", points=40):
            expect(found["pt"] is (pt == "on"), f"wrong labels: {found}")


def plugin_ratio():
    for provider in ("tcp", "shm"):
        for found in results(*PLUGIN, *FAST, "--raw", "--provider", provider, "--op", "both", "--sizes", "8,64K",
                             "--batch", "1,64", points=8):
            expect(found["ratio_raw"] > 0 and found["raw_mb_per_s"] > 0, f"no ratio: {found}")
            ratio = found["mb_per_s"] / found["raw_mb_per_s"]
            expect(abs(found["ratio_raw"] / ratio - 1) < 1e-6, f"ratio and rates disagree: {found}")


def plugin_idle():
    done = run(*PLUGIN, "--provider", "tcp", "--pt", "on", "--idle-check", "0.5", "--json", "-")
    idle = json.loads(done.stdout)["idle"]
    expect(idle["initiator_cpu_percent"] < 50 and idle["target_cpu_percent"] < 50, "idle threads spin", done)


def plugin_missing():
    done = run("--plugin-dir", "/no/such/dir", "--sizes", "8", status=1)
    expect("/no/such/dir" in done.stderr, "does not name the plugin dir", done)
    done = run(*PLUGIN, "--plugin", "NO_SUCH", "--sizes", "8", status=1)
    expect("NO_SUCH" in done.stderr, "does not name the plugin", done)
    done = run(*PLUGIN, "--param", "no_such_param=1", "--sizes", "8", status=1)
    expect("no_such_param" in done.stderr, "does not name the parameter", done)


def plugin_gpu(*more):
    """Every pairing of memory, without streams, on the plugin's, and on streams of the slots' own."""
    for mem, target_mem in (("vram", "vram"), ("vram", "dram"), ("dram", "vram"), ("dram", "dram")):
        for stream in ("off", "pool", "attached") if "vram" in (mem, target_mem) else ("attached",):
            for found in results(*PLUGIN, *more, "--mem", mem, "--target-mem", target_mem, "--gpu", "1", "--stream", stream,
                                 "--op", "both", "--notify", "on", "--sizes", "8,1M", "--batch", "3", "--iters", "8",
                                 "--window", "3", "--memory", "64M", "--post-time", points=4):
                expect((found["mem"], found["target_mem"], found["stream"]) == (mem, target_mem, stream), f"labels: {found}")
                expect(found["gpu"] == (1 if mem == "vram" or stream == "attached" else None), f"labels: {found}")
                expect(found["target_gpu"] == (1 if target_mem == "vram" else None), f"labels: {found}")
    done = run(*PLUGIN, *more, *FAST, "--mem", "vram", "--target-gpu", "2", "--sizes", "64K", "--stream", "attached", "--pt", "on")
    expect("vram of GPU 0 and vram of GPU 2, stream attached" in done.stdout, "no heading", done)
    for op in ("write", "read"):
        done = run(*PLUGIN, *more, *FAST, "--mem", "vram", "--op", op, "--sizes", "8", "--corrupt", "data", status=1)
        expect("wrong data" in done.stderr, "does not find what is wrong in GPU memory", done)


def gpu_missing():
    """On a machine with a driver, of which the directory in LD_LIBRARY_PATH has none, or one that three GPUs are on."""
    with tempfile.TemporaryDirectory() as empty:
        without = {"LD_LIBRARY_PATH": empty}
        with open(os.path.join(empty, "libcuda.so.1"), "w", encoding="utf-8") as file:
            file.write("no library\n")
        for arguments in (["--mem", "vram"], ["--target-mem", "vram"], ["--stream", "attached"]):
            done = run(*PLUGIN, *FAST, "--sizes", "8", *arguments, "--json", "-", env=without, status=1)
            expect("libcuda.so.1" in done.stderr and "--mem dram" in done.stderr, "does not say what is missing", done)
            expect("libcuda.so.1" in json.loads(done.stdout)["error"], "the JSON does not say it", done)
    for arguments in (["--mem", "vram", "--gpu", "3"], ["--target-mem", "vram", "--target-gpu", "9"]):
        done = run(*PLUGIN, *FAST, "--sizes", "8", *arguments, status=1)
        expect(f"no GPU {arguments[-1]}" in done.stderr and "shows 3" in done.stderr, "does not say what there is", done)


def group_results(*arguments, world, pattern, points, initiators):
    """Every point is right, and has a result of each initiator, which add up."""
    for found in results(*PLUGIN, "--world", str(world), "--pattern", pattern, *arguments, points=points):
        expect((found["world"], found["pattern"]) == (world, pattern), f"wrong labels: {found}")
        rows = found["processes"]
        expect([row["rank"] for row in rows] == initiators, f"wrong initiators: {rows}")
        expect(sum(row["iterations"] for row in rows) == found["iterations"], f"they do not add up: {found}")
        expect(max(row["seconds"] for row in rows) == found["seconds"], f"not the slowest's time: {found}")


def group_patterns(*more):
    few = ["--op", "both", "--notify", "both", "--sizes", "1,5000,300000", "--batch", "1,3", "--iters", "20",
           "--window", "3", *more]
    group_results(*few, world=4, pattern="all-to-all", points=24, initiators=[0, 1, 2, 3])
    group_results(*few, world=4, pattern="pairwise", points=24, initiators=[0, 1])
    group_results(*few, world=3, pattern="many-to-one", points=24, initiators=[1, 2])
    group_results(*few, world=3, pattern="one-to-many", points=24, initiators=[0])


def group_wrong():
    """What is wrong anywhere is told, by whom, and is everybody's exit status."""
    for op, text in (("write", "has from rank"), ("read", "read from rank")):
        done = run(*PLUGIN, *FAST, "--world", "3", "--op", op, "--sizes", "8", "--corrupt", "data", "--json", "-", status=1)
        expect(re.search(rf"WRONG: .*what rank \d {text} \d: .*wrong data", done.stderr), "does not say what is wrong", done)
        expect(json.loads(done.stdout)["results"][0]["checked"] is False, "the result looks right", done)
    done = run(*PLUGIN, *FAST, "--world", "4", "--pattern", "many-to-one", "--sizes", "8", "--per-process")
    rows = [line.split()[3] for line in done.stdout.splitlines()[2:]]
    expect(rows == ["1", "2", "3", "all"], f"rows of {rows}", done)


def group_death():
    """One kills itself while it is timed: all others say who, and end."""
    for pattern, who, told in (("all-to-all", 2, "0134"), ("many-to-one", 3, "0124"), ("one-to-many", 0, "1234")):
        done = run(*PLUGIN, "--world", "5", "--pattern", pattern, "--die", str(who), "--sizes", "4K", "--timeout", "20",
                   "--seconds", "20", "--json", "-", status=1 if who else -9)
        if who:
            expect(f"rank {who}" in json.loads(done.stdout)["error"], "the JSON does not say who", done)
            expect(f"rank {who} was killed by signal 9" in done.stderr, "does not say how", done)
            for rank in told:
                expect(re.search(rf"railyard-bench: rank {rank}: .*rank {who}", done.stderr), f"rank {rank} is silent", done)


def group_processes(count, *arguments, address, left_out=()):
    """Processes of their own that meet at `address`; (status, output, errors) of each."""
    started = [subprocess.Popen([PROGRAM, *PLUGIN, *FAST, "--world", str(count), "--rendezvous", address, "--provider",
                                 "tcp", "--param", "devices=lo", "--sizes", "4K", *arguments],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for number in range(count) if number not in left_out]
    try:
        ends = [process.communicate(timeout=LIMIT) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [(process.returncode, *end) for process, end in zip(started, ends)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def group_tcp():
    """Without ranks, whoever comes first coordinates, and it alone prints."""
    address = f"tcp://127.0.0.1:{free_port()}"
    ends = group_processes(4, "--notify", "on", "--op", "both", address=address)
    expect([status for status, _, _ in ends] == [0] * 4, f"not all well: {ends}")
    expect(sorted(len(output.splitlines()) for _, output, _ in ends) == [0, 0, 0, 7], f"not one table: {ends}")
    ends = group_processes(3, "--timeout", "1", address=address, left_out=[2])
    for status, _, errors in ends:
        expect(status == 1 and "rank 2 of 3 has not arrived within 1 s" in errors, f"does not name who is missing: {ends}")


def group_options():
    """All must be told the same, but for the seed."""
    address = f"tcp://127.0.0.1:{free_port()}"
    common = [PROGRAM, *PLUGIN, "--world", "2", "--rendezvous", address, "--param", "provider=tcp", "--param", "devices=lo"]
    other = subprocess.Popen([*common, "--rank", "1", "--sizes", "16"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True)
    try:
        done = run(*common[1:], "--rank", "0", "--sizes", "8", status=1)
        errors = other.communicate(timeout=LIMIT)[1]
    finally:
        other.kill()
        other.wait()
    for text in (done.stderr, errors):
        expect("rank 1 was started with another --sizes than rank 0 ([16] and [8])" in text, "does not say what", done)
    expect(other.returncode == 1, "the other process is content")


CASES = {"usage": usage, "raw-loop": raw_loop, "raw-corrupt": lambda: corrupt(RAW), "raw-stall": lambda: stall(RAW),
         "raw-two-roles": lambda: two_roles(RAW), "plugin-tcp": lambda: plugin("tcp"),
         "plugin-shm": lambda: plugin("shm"), "plugin-efa": lambda: simulated(lambda: plugin_simulated("efa")),
         "plugin-efa-direct": lambda: simulated(lambda: plugin_simulated("efa-direct")), "plugin-progress-thread": plugin_progress_thread,
         "plugin-ratio": plugin_ratio, "plugin-corrupt": lambda: corrupt(PLUGIN),
         "plugin-stall": lambda: stall(PLUGIN), "plugin-two-roles": lambda: two_roles(PLUGIN),
         "plugin-idle": plugin_idle, "gpu-missing": gpu_missing,
         "gpu-tcp": lambda: plugin_gpu("--provider", "tcp"), "gpu-shm": lambda: plugin_gpu("--provider", "shm"),
         "gpu-efa-direct": lambda: simulated(
             lambda: plugin_gpu("--provider", "efa-direct", "--target-env", "SIMEFA_HOST=target")), "plugin-missing": plugin_missing,
         "group-tcp": lambda: group_patterns("--provider", "tcp", "--rails", "2"), "group-shm": lambda: group_patterns("--provider", "shm"),
         "group-progress-thread": lambda: group_patterns("--pt", "on"), "group-wrong": group_wrong,
         "group-death": group_death, "group-meeting": group_tcp, "group-options": group_options}

CASES[CASE]()
print(f"{CASE}: passed")
