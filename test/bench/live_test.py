#!/usr/bin/env python3
"""railyard-info --live at the engines of a benchmark that runs.  live_test.py BENCH CASE PLUGIN_DIR INFO"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from program import CASE, LIMIT, PLUGIN, PROGRAM, expect

INFO = sys.argv[4]
SIZE = 4096
AGENTS = ("initiator", "target")


def info(*arguments):
    return subprocess.run([INFO, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT, check=False)


def engines_of(names, *arguments):
    """What --live says of each, within a limit: engines come up, and move something, in their own time."""
    end = time.monotonic() + 30
    while True:
        done = info("--json", "--live", *names, *arguments)
        if done.returncode == 0:
            engines = json.loads(done.stdout)["engines"]
            if all(peer.get("write") for engine in engines[:1] for peer in engine["peers"]) and engines[0]["peers"]:
                return engines
        expect(time.monotonic() < end, "no transfers to be seen", done)
        time.sleep(0.1)


def look(names, kind):
    first, there = engines_of(names)
    expect((first["agent"], there["agent"]) == AGENTS and first["file"] == names[0], f"not the engines: {first} {there}")
    expect(first["peers"][0]["on_host"] is False, f"railyard-bench goes over the fabric, and {first} says otherwise")
    expect(first["interval_ms"] is None and there["peers"][0]["peer"] == "initiator", f"{first} {there}")
    second = engines_of(names)[0]
    expect(second["peers"][0]["write"]["bytes"] >= first["peers"][0]["write"]["bytes"], "counters have fallen")

    rate, other = engines_of(names, "--interval", "1.5")
    expect(500 <= rate["interval_ms"] < 30000, f"an interval of {rate['interval_ms']} ms")
    write = rate["peers"][0]["write"]
    expect(write["transfers"] > 0 and 0 <= write["transfers"] * SIZE - write["bytes"] <= SIZE, f"bytes do not belong to transfers: {write}")
    expect(write["latency"]["measured"] > 0 and write["latency"]["p50_ns"] > 0, f"no latencies: {write}")
    on_rails = sum(rail["write"]["bytes"] for rail in rate["rails"])
    expect(0.5 < on_rails / write["bytes"] < 2, f"rails carry {on_rails} B/s, and transfers {write['bytes']}")
    expect(all(rail["write"]["bytes"] == 0 for rail in other["rails"]), f"the target writes: {other}")
    text = info("--live", names[0], "--interval", "1.5")
    expect(text.returncode == 0 and "written/s" in text.stdout and "transfers/s" in text.stdout and ", in " in text.stdout, "no rates", text)

    for _ in range(3):  # shorter than the time between two that are told: the next one is waited for
        hasty = info("--live", *names, "--interval", "0.1")
        expect(hasty.returncode == 0 and hasty.stdout.count(", in ") == 2, "does not wait for what is told next", hasty)
    expect(info("--interval", "1").returncode == 2, "--interval without --live is no usage error")


def ask_somebody_who_hangs_up():
    """As an engine does at the socket of another user's."""
    name = f"railyard-live-{os.getpid()}-other"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen()
        listener.settimeout(LIMIT)
        asking = subprocess.Popen([INFO, "--live", "@" + name], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        listener.accept()[0].close()
        errors = asking.communicate(timeout=LIMIT)[1]
    expect(asking.returncode == 1 and "answers its own user and root alone" in errors, f"does not say why nothing comes: {errors}")


def run_case(kind):
    if kind == "abstract":
        ask_somebody_who_hangs_up()
    with tempfile.TemporaryDirectory(prefix="railyard-live.") as folder:
        if kind == "deep":  # its path is too long for a socket, whose name is relative where the engine runs
            folder = os.path.join(folder, "x" * 140)
            os.mkdir(folder)
            nameless = info("--live", f"@{folder}")
            expect(nameless.returncode == 1 and f'cannot ask "@{folder}": no name for a socket' in nameless.stderr, "does not say which", nameless)
        pattern = {"socket": f"{folder}/%a.sock", "deep": f"{folder}/%a.sock", "file": f"{folder}/%a.prom", "abstract": f"@railyard-live-{os.getpid()}-%a"}[kind]
        names = [pattern.replace("%a", agent) for agent in AGENTS]
        setting = "RAILYARD_STATS_FILE" if kind == "file" else "RAILYARD_STATS_SOCKET"
        bench = subprocess.Popen([os.path.abspath(PROGRAM), *PLUGIN, "--provider", "tcp", "--param", "devices=lo", "--rails-per-device", "2", "--sizes", str(SIZE),
                                  "--pt", "on", "--seconds", "60"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder if kind == "deep" else None,
                                 env={**os.environ, setting: os.path.basename(pattern) if kind == "deep" else pattern})
        try:
            look(names, kind)
            expect(bench.poll() is None, "the benchmark has ended")
        finally:
            bench.terminate()
            errors = bench.communicate(timeout=LIMIT)[1]
            print(errors)
        end = time.monotonic() + 10
        while (gone := info("--live", names[0])).returncode == 0 and kind != "file":
            expect(time.monotonic() < end, "it answers although it has gone", gone)
            time.sleep(0.1)


run_case(CASE)
print(f"{CASE}: passed")
