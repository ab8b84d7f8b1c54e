#!/usr/bin/env python3
"""Mooncake's EFA transport, as its authors built it, moves checked data over the NICs of a simulated machine.

Runs in the chroot of scripts/trixie-chroot: Mooncake asks libfabric for a newer interface than Debian 12's has. Two
processes, two hosts; every byte is compared, and the counters of the simulated NICs say that all of them carried it.
Exit status: 0 all passed, 1 a failure, 77 skipped, with the reason on the last line.
"""
import argparse
import pathlib
import subprocess
import sys
import time

import mooncake_session
from simulated_machine import SimulatedMachine

SKIPPED = 77
CHROOT_FAILED = 125
CHROOT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "trixie-chroot"
MIB = 1 << 20
ROOM = 17 * MIB
SIZES = (4096, 65536, MIB, 16 * MIB)
GUARD = 4096
OLD, NEW = 1, 2  # seeds of what the receiving side had before, and of what is sent to it
# One request goes over one NIC, drawn at random: so many that even of 32 none is left out.
BATCH, BATCH_SIZE = 1024, 8192


class Case:
    """One direction between the two sides; `wrong` collects what differs from what should be there.

    `patience_s`: what a written target is granted where its NICs have no RDMA WRITE. Its own thread places there what
    has arrived, and Mooncake's success tells that it has been sent.
    """

    def __init__(self, initiator, target, patience_s):
        self.initiator, self.target, self.patience_s = initiator, target, patience_s

    def move(self, operation, pieces):
        """Moves adjacent (offset, length) pieces to the same offsets of the other side; every byte of the range is checked."""
        first, last = pieces[0][0], pieces[-1][0] + pieces[-1][1]
        sender, receiver = (self.initiator, self.target) if operation == "write" else (self.target, self.initiator)
        sender.ask("fill", seed=NEW, offset=first - GUARD, length=last - first + 2 * GUARD)
        receiver.ask("fill", seed=OLD, offset=first - GUARD, length=last - first + 2 * GUARD)
        place = self.target.place
        status = self.initiator.ask(operation, segment=place["segment"], requests=[
            [offset, place["address"] + offset, length] for offset, length in pieces])["status"]
        ranges = [(OLD, first - GUARD, GUARD), (NEW, first, last - first), (OLD, last, GUARD)]
        end = time.monotonic() + (self.patience_s if operation == "write" else 0)
        while True:
            wrong = sum(receiver.ask("check", seed=seed, offset=offset, length=length)["wrong"]
                        for seed, offset, length in ranges)
            if wrong == 0 or time.monotonic() >= end:
                break
            time.sleep(0.01)
        return None if status == 0 and wrong == 0 else f"status {status}, {wrong} bytes wrong"


def transfers(case):
    """(name, bytes moved, what went wrong or None) of each transfer."""
    for operation in ("write", "read"):
        for size in SIZES:
            yield f"{operation} {size}", size, case.move(operation, [(GUARD, size)])
        pieces = [(GUARD + index * BATCH_SIZE, BATCH_SIZE) for index in range(BATCH)]
        yield f"{operation} {BATCH} x {BATCH_SIZE}", BATCH * BATCH_SIZE, case.move(operation, pieces)


def carried(machine, moved):
    """What is wrong with the counters of the NICs after `moved` bytes; None: on both hosts every NIC carried."""
    for host in (0, 1):
        counters = machine.counters(host)
        idle = [name for name, _ in machine.nics
                if counters.get(name, {}).get("bytes_out", 0) == 0 or counters[name]["bytes_in"] == 0]
        total = sum(row["bytes_out"] + row["bytes_in"] for row in counters.values())
        if idle or total < moved:
            return f"host {host}: {total} bytes for {moved} moved; not both ways over {', '.join(idle) or 'any'}"
        print(f"  host {host}: {total} bytes over {len(counters)} NICs")
    return None


def run_machine(machine):
    """Number of failures on one machine."""
    failures, moved = 0, 0

    def report(name, wrong):
        print(f"{'FAILED' if wrong else 'ok'} {machine.topology.stem}, {len(machine.nics)} rails: {name}"
              f"{': ' + wrong if wrong else ''}", flush=True)
        return 1 if wrong else 0

    try:
        with mooncake_session.Side(machine, 0, ROOM) as initiator, mooncake_session.Side(machine, 1, ROOM) as target:
            patience_s = 5 if machine.topology.stem.startswith("p4d") else 0
            for name, size, wrong in transfers(Case(initiator, target, patience_s)):
                failures += report(name, wrong)
                moved += size
                if wrong:
                    print(initiator.last_words())
            failures += report("the NICs' counters", carried(machine, moved))
    except RuntimeError as error:
        failures += report("agents", str(error))
    return failures


def inside(arguments):
    """In the chroot."""
    try:
        mooncake_session.interpreter()
    except mooncake_session.NotHere as reason:
        print(reason)
        return SKIPPED
    failures = 0
    for topology in arguments.topology:
        with SimulatedMachine(topology, arguments.provider_dir, arguments.preload, arguments.simefactl) as machine:
            failures += run_machine(machine)
    return 1 if failures else 0


def outside():
    """Makes the chroot and runs this same command in it."""
    made = subprocess.run([str(CHROOT), "--make"], stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        print((made.stderr.strip().splitlines() or ["no reason given"])[-1])
        return SKIPPED if made.returncode == CHROOT_FAILED else 1
    return subprocess.run([str(CHROOT), "python3", "-B", __file__, "--inside", *sys.argv[1:]], check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--provider-dir", required=True, help="directory of libsimefa-fi.so")
    parser.add_argument("--preload", required=True, help="the built verbs_preload")
    parser.add_argument("--simefactl", required=True, help="the provider's control program")
    parser.add_argument("--inside", action="store_true", help="this is the chroot already")
    parser.add_argument("topology", nargs="+", help="hwloc XML of a machine")
    arguments = parser.parse_args()
    return inside(arguments) if arguments.inside else outside()


if __name__ == "__main__":
    sys.exit(main())
