"""Two sides measured in turns, and a pass of the stock host as one of them: for the programs that compare."""

import json
import os
import pathlib
import subprocess
import sys

PASS = pathlib.Path(__file__).resolve().parent / "one_pass.py"
PASS_LIMIT_S = 600
HOST_SETTINGS = ("NIXL_", "RAILYARD_", "UCX_")


class Turns:
    """What rounds have found: {cell's key: {"cell", "ours": [microseconds or None], "theirs": [...], "why": {side: reason}}}."""

    def __init__(self, rounds):
        self.rounds = rounds
        self.results = {}

    def take(self, round_number, where, cells, sides):
        """One pass of both sides over `cells` (by key), in an order that changes with the round. `sides` are functions that answer
        microseconds and reasons of failures, both by the cell's name."""
        for side in in_order(sides, round_number):
            self.announce(round_number, f"{where}: {side}")
            self.add(side, cells, *sides[side]())

    def announce(self, round_number, what):
        print(f"round {round_number + 1} of {self.rounds}, {what}", file=sys.stderr, flush=True)

    def add(self, side, cells, times, errors):
        """What a pass of `side` over `cells` (by key) has found; both by the cell's name."""
        for key, cell in cells.items():
            result = self.results.setdefault(key, {"cell": cell, "ours": [], "theirs": [], "why": {}})
            result[side].append(times.get(cell["name"]))
            if cell["name"] in errors:
                result["why"].setdefault(side, errors[cell["name"]])


def in_order(sides, round_number):
    return sorted(sides, reverse=round_number % 2)


def pass_of_host(python, plugins, plan, environment):
    """Command and environment of one_pass.py."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(HOST_SETTINGS)}
    clean |= {"NIXL_PLUGIN_DIR": str(plugins), "NIXL_LOG_LEVEL": "ERROR"} | environment
    return [str(python), "-B", str(PASS), json.dumps(plan)], clean


def python_pass(python, plugins, plan, environment):
    """Microseconds and errors by cell of one pass of the stock host (one_pass.py); what it did not get to is in neither."""
    command, clean = pass_of_host(python, plugins, plan, environment)
    try:
        output = subprocess.run(command, env=clean, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=PASS_LIMIT_S,
                                text=True, check=False).stdout
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode()
        print(f"{plan['backend']}: no end after {PASS_LIMIT_S} s", file=sys.stderr)
    times, errors = {}, {}
    for line in output.splitlines():
        result = json.loads(line)
        if "processes" in result:
            remove_shared_memory(result["processes"])
        elif "error" in result:
            errors[result["name"]] = result["error"]
        else:
            times[result["name"]] = result["us"]
    return times, errors


def remove_shared_memory(processes):
    """What libfabric's shm leaves of processes that were killed."""
    for process in processes:
        for left in pathlib.Path("/dev/shm").glob(f"{process}[-:]*"):
            left.unlink()
