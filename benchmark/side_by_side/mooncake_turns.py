"""Inside the chroot of beside_mooncake.py: passes of ours and of Mooncake in turns over the NICs of a simulated machine.

    mooncake_turns.py PLAN

PLAN is the JSON object that beside_mooncake.py makes. Prints what was found as one line of JSON; exit status 77 with the reason on
the last line where one of the two cannot be had.
"""

import functools
import json
import pathlib
import sys

import stock_host
import turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/strangers"))
import mooncake_session  # noqa: E402
from simulated_machine import SimulatedMachine  # noqa: E402

ROOM = 64 << 20  # that each side registers, as in one_pass.py
LIMIT_S = 30  # for any one answer of Mooncake's
FIRST = {"op": "WRITE", "size": 64 << 10, "batch": 64}  # before a rail is disturbed
OLD, NEW = 1, 2  # seeds of what the receiving side had before, and of what is sent to it


class Failed(Exception):
    """A cell of Mooncake's has failed; the text says how."""


class Pair:
    """Two Mooncake agents."""

    def __init__(self, initiator, target, plan):
        self.initiator, self.target, self.plan = initiator, target, plan

    def fill(self, cell):
        span = min(cell["size"] * cell["batch"], ROOM)
        sender, receiver = (self.initiator, self.target) if cell["op"] == "WRITE" else (self.target, self.initiator)
        sender.ask("fill", seed=NEW, offset=0, length=span)
        receiver.ask("fill", seed=OLD, offset=0, length=span)

        def compare():
            if self.plan["corrupt"]:
                receiver.ask("fill", seed=OLD, offset=span - 1, length=1)
            wrong = receiver.ask("check", seed=NEW, offset=0, length=span)["wrong"]
            if wrong:
                raise Failed("the wrong bytes have arrived")
        return compare

    def _rate(self, cell, seconds):
        answer = self.initiator.ask("rate", limit_s=LIMIT_S, op=cell["op"].lower(), segment=self.target.place["segment"],
                                    remote=self.target.place["address"], size=cell["size"], window=cell["batch"], seconds=seconds)
        if answer["status"] != 0:
            raise Failed(f"a transfer ends with status {answer['status']}")
        return answer

    def move_once(self, cell):
        compare = self.fill(cell)
        self._rate(cell, 0)
        compare()
        return compare

    def measure(self, cell, seconds):
        """Microseconds a call of so many requests."""
        compare = self.move_once(cell)
        answer = self._rate(cell, seconds)
        compare()
        return answer["seconds"] * 1e6 / (answer["ops"] / cell["batch"])


def one_rail(machine):
    """Of the initiator's."""
    return ["--host", "0", "--nic", machine.nics[1][0]]


def prepare(machine, scenario):
    machine.control("reset")
    for where, settings in (([], scenario["all"]), (one_rail(machine), scenario["one"])):
        if settings:
            machine.control("set", *where, *settings)


def theirs(machine, plan, scenario, cells):
    """Microseconds and reasons by cell. After a failure the next cell gets a new pair."""
    times, errors, left = {}, {}, list(cells)
    while left:
        prepare(machine, scenario)
        try:
            with mooncake_session.Side(machine, 0, ROOM) as initiator, mooncake_session.Side(machine, 1, ROOM) as target:
                pair = Pair(initiator, target, plan)
                if scenario["one_later"]:
                    pair.move_once(FIRST)
                    machine.control("set", *one_rail(machine), *scenario["one_later"])
                while left:
                    times[left[0]["name"]] = pair.measure(left[0], plan["seconds"])
                    left.pop(0)
        except (Failed, RuntimeError) as error:
            errors[left.pop(0)["name"]] = str(error).splitlines()[0]
    return times, errors


def ours(python, machine, plan, scenario, cells):
    """The same of our plugin in the stock host."""
    times, errors, left = {}, {}, list(cells)
    params = {"provider": plan["provider"], "devices": ",".join(name for name, _ in machine.nics), "max_bw_per_dram_seg": "1000000"}
    while left:
        prepare(machine, scenario)
        one = {"backend": "RAILYARD", "params": params, "progress_thread": plan["progress_thread"],
               "seconds": plan["seconds"], "cells": left, "target_environment": {"SIMEFA_HOST": "1"}, "corrupt": plan["corrupt"]}
        if scenario["one_later"]:
            one["disturb"] = machine.control_command("set", *one_rail(machine), *scenario["one_later"])
        found, failed = turns.python_pass(python, plan["plugins"], one, machine.environment(0))
        if not found and not failed:
            failed = {left[0]["name"]: "the pass ended without a result"}
        times |= found
        errors |= failed
        left = [cell for cell in left if cell["name"] not in times and cell["name"] not in errors]
    return times, errors


def main():
    plan = json.loads(sys.argv[1])
    try:
        mooncake_session.interpreter()
        python, _ = stock_host.host_python(stock_host.cache_directory())
    except (mooncake_session.NotHere, stock_host.Missing) as why:
        print(f"skipped: {why}")
        return 77
    found = turns.Turns(plan["rounds"])
    with SimulatedMachine(plan["topology"], plan["provider_dir"], plan["preload"], plan["simefactl"], plan["rails"]) as machine:
        with mooncake_session.Side(machine, 0, ROOM) as initiator, mooncake_session.Side(machine, 1, ROOM) as target:
            Pair(initiator, target, {"corrupt": False}).move_once(FIRST)  # what fails here is no cell's failure
        for round_number in range(plan["rounds"]):
            for where, scenario in plan["scenarios"].items():
                cells = scenario["cells"]
                keys = {(where, plan["progress_thread"], cell["name"]): cell for cell in cells}
                found.take(round_number, where, keys, {
                    "ours": functools.partial(ours, python, machine, plan, scenario, cells),
                    "theirs": functools.partial(theirs, machine, plan, scenario, cells)})
    print(json.dumps([[key, result] for key, result in found.results.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
