#!/usr/bin/env python3
"""A micro benchmark runs, its transfers end well, and it prints what the tables are made of.

    micro_test.py post-threads|resting-callers PROGRAM [OPTION]...
"""
import json
import subprocess
import sys

LIMIT = 80  # seconds


def check_post_threads(seen):
    rates = [seen[name] for name in ("one_thread", "two_threads", "two_engines")]
    assert min(rates) > 0, seen
    assert seen["scaling"] > 0 and seen["ceiling"] > 0 and seen["line_ns"] > 0, seen
    assert abs(seen["of_ceiling"] - seen["two_threads"] / seen["two_engines"]) < 1e-6, seen
    assert seen["meetings_per_operation"] >= 0, seen


def check_resting_callers(seen):
    assert [row["threads"] for row in seen] == ["1", "2"], seen
    for row in seen:
        assert 0 < row["low"] <= row["descriptors_per_second"] <= row["high"], row
        assert 0 < row["caller"] <= row["cpu"] + 0.01, row  # of a core, and printed with two digits


CHECKS = {"post-threads": check_post_threads, "resting-callers": check_resting_callers}


def main():
    check, command = CHECKS[sys.argv[1]], sys.argv[2:]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
    print(done.stdout, end="")
    if done.returncode:
        print(f"{command[0]}: exit status {done.returncode}")
        return 1
    check(json.loads(done.stdout))
    return 0


if __name__ == "__main__":
    sys.exit(main())
