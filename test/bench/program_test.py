#!/usr/bin/env python3
"""railyard-bench as a user runs it.  program_test.py PROGRAM CASE [PLUGIN_DIR]"""
import contextlib
import glob
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time

from program import CASE, FAST, LIMIT, MATRIX, PLUGIN, PROGRAM, RAW, expect, expect_lost_output, least_of, results, run, simulated


def usage():
    run("--help")
    for arguments in (["--op", "append"], ["--sizes", "0"], ["--sizes", "1G", "--batch", "64"], ["--param", "x"],
                      ["--role", "target"], ["--no-such-option"], ["--mem", "vram"]):
        done = run(*RAW, *arguments, status=2)
        expect(done.stderr.startswith("railyard-bench: "), "no message", done)
        expect(done.stdout == "", "usage errors belong on standard error", done)
    done = run(*RAW, "--sizs", "8", status=2)
    expect("'--sizs' is no option here (did you mean --sizes?)" in done.stderr, "does not say what may have been meant", done)
    expect("--seed" in run(*RAW, "--seed", "-1", status=2).stderr, "a number below 0 is another one, or nothing")
    # An address of nobody's, kept for documents.
    done = run(*RAW, "--role", "target", "--peer", "192.0.2.1:0", status=1)
    expect("192.0.2.1" in done.stderr and "an address of this machine" in done.stderr, "does not say what to give", done)
    done = run(*RAW, "--provider", "nonsense", "--sizes", "8", status=1)
    expect("nonsense" in done.stderr and "libfabric offers" in done.stderr, "does not name what there is", done)
    done = run(*RAW, "--sizes", "8", "--json", "/no/such/dir/file", *FAST, status=1)
    expect("/no/such/dir/file" in done.stderr, "does not name the file", done)


def plugin_secret():
    """What signs messages is in no report and in no error."""
    secret = "no-report-has-these-words"
    param = ["--provider", "tcp", "--param", f"cluster_secret={secret}"]
    for group in ([], ["--world", "2"]):
        done = run(*PLUGIN, *FAST, *param, *group, "--sizes", "8", "--json", "-")
        expect(json.loads(done.stdout)["host"]["params"]["cluster_secret"] == "(set)", "does not say that it is set", done)
        expect(secret not in done.stdout + done.stderr, "the secret is told", done)
    done = run(*PLUGIN, *param, "--param", f"cluster_secret={secret[:-1]}", status=2)
    expect("parameter 'cluster_secret' is given twice" in done.stderr and secret[:-1] not in done.stderr, "the secret is told", done)
    done = run(*PLUGIN, "--param", "rails=1", "--param", "rails=2", status=2)
    expect("'rails' is given twice: '1' and '2'" in done.stderr, "does not say what was given", done)


def raw_loop():
    for provider in ("tcp", "shm"):
        for rails in ("1", "4"):
            results(*RAW, *MATRIX, "--provider", provider, "--rails-per-device", rails, points=16)
    done = run(*RAW, *FAST, "--sizes", "8", "--pt", "on")
    expect(re.search(r"bytes +batch .*MB/sec +usec/xfer +Mxfers/s +p50", done.stdout), "no table", done)
    expect(len(done.stdout.strip().splitlines()) == 3 and "\r" not in done.stderr, "more than a table", done)
    expect_lost_output(*RAW, *FAST, "--sizes", "8")
    expect_lost_output(*RAW, *FAST, "--sizes", "8", "--json", "-")
    expect_lost_output("--help")


def corrupt(side):
    for kind, text in (("data", "wrong data"), ("guard", "guard bytes")):
        for op in ("write", "read"):
            done = run(*side, *FAST, "--op", op, "--sizes", "8,4K", "--corrupt", kind, "--json", "-", status=1)
            expect(done.stderr.count(text) == 2 and "WRONG" in done.stderr, f"does not tell of {text}", done)
            for result in json.loads(done.stdout)["results"]:
                expect(result["checked"] is False and text in result["wrong"], "the result looks right", done)
    # What only the untimed pass before has moved is not checked.
    for more in ([], ["--raw"]) if side is PLUGIN else ():
        for op in ("write", "read"):
            done = run(*side, *FAST, *more, "--op", op, "--sizes", "8,4K", "--corrupt", "reposts", "--json", "-", status=1)
            expect(done.stderr.count(": ours after the timed part: transfer") == 2, "does not tell of wrong data", done)
            expect(all(result["checked"] is False for result in json.loads(done.stdout)["results"]), "the result looks right", done)
    done = run(*side, *FAST, "--sizes", "8", "--corrupt", "data", "--no-check", "--json", "-")
    expect(json.loads(done.stdout)["results"][0]["checked"] is False, "checked without a check", done)


def stall(side):
    done = run(*side, "--sizes", "4K", "--seconds", "0.2", "--stall", "--timeout", "3", "--json", "-", status=1)
    expect(re.search(r"stalled: \w+ write of 4K.* outstanding", done.stderr), "does not say what stalled", done)
    expect("stalled" in json.loads(done.stdout)["error"], "the JSON does not tell of the stall", done)


@contextlib.contextmanager
def listening(*arguments):
    """A target that is started by itself, over lo, and has to end well: the address at which it listens."""
    target = subprocess.Popen([PROGRAM, *arguments, "--role", "target", "--peer", "127.0.0.1:0", "--param", "devices=lo"],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        line = target.stderr.readline()
        place = re.search(r"listening on (\S+:\d+)", line)
        expect(place, f"the target says {line!r}")
        yield place.group(1)
        expect(target.wait(timeout=20) == 0, f"the target ended with {target.returncode}")
    finally:
        target.kill()
        target.wait()
        target.stderr.close()


def two_roles(side):
    with listening(*side, "--provider", "tcp") as place:
        results(*side, *FAST, "--role", "initiator", "--peer", place, "--provider", "tcp", "--param", "devices=lo",
                "--op", "both", "--sizes", "8,64K", points=4)


def raw_silent():
    """What is not there, or not of ours, is named with its address, not long after --timeout."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        place = f"127.0.0.1:{stranger.getsockname()[1]}"

        def seconds_to_give_up():
            began = time.monotonic()
            done = run(*RAW, "--role", "initiator", "--peer", place, "--timeout", "4", status=1)
            expect(f"the target at {place} did not answer within 4 s" in done.stderr, "does not say who is silent", done)
            return time.monotonic() - began

        took = least_of(6, seconds_to_give_up)
        expect(took < 6, f"took {took} s")
    done = run(*RAW, "--role", "initiator", "--peer", place, "--timeout", "0.5", "--json", "-", status=1)
    expect(f"no target at {place}" in done.stderr and "--role target" in done.stderr, "does not say who is not there", done)
    expect(f"no target at {place}" in json.loads(done.stdout)["error"], "the document does not say so", done)
    done = run(*RAW, "--role", "target", "--peer", "127.0.0.1:0", "--timeout", "0.5", status=1)
    place = re.search(r"listening on (\S+)", done.stderr).group(1)
    expect(f"no initiator has come to {place} within 0.5 s" in done.stderr, "does not say who has not come", done)


@contextlib.contextmanager
def waiting(timeout):
    """A target of the plain loop, and where it listens."""
    target = subprocess.Popen([PROGRAM, *RAW, "--role", "target", "--peer", "127.0.0.1:0", "--param", "devices=lo", "--timeout", str(timeout)],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield target, ("127.0.0.1", int(re.search(r":(\d+)$", target.stderr.readline())[1]))
    finally:
        target.kill()
        target.wait()
        target.stderr.close()


def raw_strangers():
    """Whoever is no initiator does not end a target, nor keep it from one, and is told of; the time limit stays what it is."""
    frame = b"RYX1" + struct.pack("<Q", 4)
    with waiting(30) as (target, address), contextlib.ExitStack() as strangers:
        socket.create_connection(address).close()
        line = target.stderr.readline()
        expect(re.search(r"127.0.0.1:\d+ has hung up: dropped, and waiting on", line), f"does not tell of a stranger: {line!r}")
        # A web browser, what is whole and no greeting, what is not whole, nothing at all.
        for said, why in ((b"GET / HTTP/1.0\r\n\r\n", "is no railyard-bench"), (frame + b"\xa1\x61x\x01", ""), (frame[:9], "does not say all"), (b"", "")):
            strangers.enter_context(socket.create_connection(address)).sendall(said)
            if why:
                line = target.stderr.readline()
                expect(why in line and "by now" in line, f"does not tell of {said}: {line!r}")
        results(*RAW, *FAST, "--role", "initiator", "--peer", f"127.0.0.1:{address[1]}", "--provider", "tcp", "--param", "devices=lo",
                "--sizes", "8", points=1)
        expect(target.wait(timeout=20) == 0, f"the target ended with {target.returncode}: {target.stderr.read()}")
    with waiting(3) as (target, address), socket.create_connection(address):
        expect(target.wait(timeout=20) == 1, f"the target ended with {target.returncode}")
        said = target.stderr.read()
        expect("says nothing: dropped" in said and "within 3 s, only 1 connection of others" in said, f"does not say who has come: {said}")


def no_reader(*side):
    """Whoever reads the rows may go, as `head -1` does: it ends soon, says why, and leaves nothing in shared memory."""
    before = time.monotonic()
    process = subprocess.Popen([PROGRAM, *side, "--provider", "shm", "--sizes", "8:64M", "--seconds", "1"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    process.stdout = None
    _, said = process.communicate(timeout=LIMIT)
    expect(process.returncode == 1 and "cannot write to standard output" in said, f"status {process.returncode}: {said}")
    expect(time.monotonic() - before < 20, f"took {time.monotonic() - before} s")
    left = glob.glob(f"/dev/shm/{process.pid}[-:]*")
    for name in left:
        os.unlink(name)
    expect(not left, f"left in shared memory: {left}")


def no_return(*side):
    """A call that does not come back, of which a timer tells: status 1, a whole document, and nothing is left in shared memory."""
    with tempfile.NamedTemporaryFile() as document:
        process = subprocess.Popen([PROGRAM, *side, "--provider", "shm", "--sizes", "8,4K", "--seconds", "1", "--json", document.name],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = [process.stdout.readline() for _ in range(3)]  # heading and row of 8 bytes: 4 KiB come next
        os.kill(process.pid, signal.SIGALRM)
        _, said = process.communicate(timeout=LIMIT)
        told = document.read()
    expect(process.returncode == 1 and "stuck in " in said, f"status {process.returncode} after {first}: {said}")
    told = json.loads(told)
    expect([result["size"] for result in told["results"]] == [8] and told["error"].startswith("stuck in "), f"the document says {told}")
    left = glob.glob(f"/dev/shm/{process.pid}[-:]*")
    for name in left:
        os.unlink(name)
    expect(not left, f"left in shared memory: {left}")


def plugin_shm():
    plugin("shm")
    no_reader(*PLUGIN)
    no_return(*PLUGIN)


def plugin(provider):
    for rails in ("1", "4"):
        for found in results(*PLUGIN, *MATRIX, "--provider", provider, "--rails-per-device", rails, "--notify", "both", points=32):
            expect(found["rails"] == int(rails) and found["pt"] is False, f"wrong labels: {found}")


def expect_heading(done, what):
    """The heading says what the engines say that they have opened."""
    engine = re.search(r"engine with (\d+) rails? over ([^,]+),", done.stderr)
    expect(engine, "the engine does not tell", done)
    rails, provider = engine.groups()
    said = re.escape(f"{rails} rail" + ("" if rails == "1" else "s"))
    expect(re.search(rf"# RAILYARD, {re.escape(provider)}, write, {what}{said}[, ]", done.stdout), f"not {rails} rails over {provider}", done)


def plugin_heading():
    told = {"RAILYARD_LOG_LEVEL": "info"}
    for arguments in ([], ["--rails", "3"], ["--provider", "tcp-msg"], ["--rails-per-device", "4", "--param", "rails=2"], ["--provider", "shm"]):
        expect_heading(run(*PLUGIN, *FAST, "--sizes", "8", *arguments, env=told), "")
        expect_heading(run(*PLUGIN, *FAST, "--sizes", "8", "--world", "2", *arguments, env=told), "all-to-all of 2 processes, ")
    # Not forked, so that --provider has no default but the engine's choice.
    with listening(*PLUGIN) as place:
        expect_heading(run(*PLUGIN, *FAST, "--sizes", "8", "--role", "initiator", "--peer", place, "--param", "devices=lo", env=told), "")
    with listening(*RAW, "--rails-per-device", "3") as place:
        done = run(*RAW, *FAST, "--sizes", "8", "--role", "initiator", "--peer", place, "--param", "devices=lo", "--rails-per-device", "3")
    expect(re.search(r"# plain libfabric loop, tcp( \(net\))?, write, 3 rails,", done.stdout), "does not say over what", done)
    done = run(*PLUGIN, *FAST, "--sizes", "8", "--json", "-")
    document = json.loads(done.stdout)
    expect(document["host"]["provider"] in ("tcp", "net") and document["results"][0]["rails"] == 1, "another engine", done)


def plugin_progress_thread():
    for provider in ("tcp", "shm"):
        results(*PLUGIN, "--provider", provider, "--pt", "on", "--op", "both", "--sizes", "8,64K", "--batch", "1,16",
                "--notify", "both", "--iters", "50", "--window", "4", points=16)
    found = results(*PLUGIN, "--pt", "on", "--sizes", "4K", "--batch", "2000", "--window", "1", "--iters", "5",
                    "--post-time", points=1)
    expect(found[0]["post_p50_us"] > 0, f"no post time: {found}")


def plugin_simulated(provider):
    for pt in ("off", "on"):
        for found in results(*PLUGIN, "--provider", provider, "--target-env", "SIMEFA_HOST=target", "--pt", pt,
                             "--op", "both", "--notify", "both", "--sizes", "1,8,5000,300000,5M", "--batch", "1,7",
                             "--iters", "20", "--window", "3", points=40):
            expect(found["pt"] is (pt == "on"), f"wrong labels: {found}")


def plugin_ratio():
    for provider in ("tcp", "shm"):
        for found in results(*PLUGIN, *FAST, "--raw", "--provider", provider, "--op", "both", "--sizes", "8,64K",
                             "--batch", "1,64", "--slices", "1", points=8):
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
    done = run(*PLUGIN, "--plugin", "../NAME", "--sizes", "8", status=1)
    expect("'../NAME' is no name of a plugin" in done.stderr and "libplugin_NAME.so" in done.stderr, "does not say what is one", done)
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


CASES = {"usage": usage, "raw-loop": raw_loop, "raw-corrupt": lambda: corrupt(RAW), "raw-stall": lambda: stall(RAW),
         "raw-silent": raw_silent, "raw-strangers": raw_strangers, "raw-two-roles": lambda: two_roles(RAW), "plugin-tcp": lambda: plugin("tcp"),
         "plugin-shm": plugin_shm, "plugin-efa": lambda: simulated(lambda: plugin_simulated("efa")),
         "plugin-efa-direct": lambda: simulated(lambda: plugin_simulated("efa-direct")), "plugin-progress-thread": plugin_progress_thread,
         "plugin-ratio": plugin_ratio, "plugin-corrupt": lambda: corrupt(PLUGIN),
         "plugin-stall": lambda: stall(PLUGIN), "plugin-two-roles": lambda: two_roles(PLUGIN),
         "plugin-heading": plugin_heading, "plugin-idle": plugin_idle, "gpu-missing": gpu_missing,
         "gpu-tcp": lambda: plugin_gpu("--provider", "tcp"), "gpu-shm": lambda: plugin_gpu("--provider", "shm"),
         "gpu-efa-direct": lambda: simulated(
             lambda: plugin_gpu("--provider", "efa-direct", "--target-env", "SIMEFA_HOST=target")), "plugin-missing": plugin_missing, "plugin-secret": plugin_secret}

CASES[CASE]()
print(f"{CASE}: passed")
