#!/usr/bin/env python3
"""How fast Mooncake's EFA transport is over the NICs of a simulated machine; prints JSON.

    scripts/trixie-chroot python3 -B test/strangers/mooncake_bench.py --provider-dir DIR --preload FILE --simefactl FILE \\
        --sizes 4096,65536 --windows 1,64 test/topo/p4d.24xl.xml

For each size and window: {"size", "window", "op", "ops_per_s", "mb_per_s", "us_per_op", "lowest", "highest", "seconds", "checked"}, the median of the
rounds by operations a second, with the lowest and the highest. A window is one call that posts so many requests and returns
when all have ended; MB are 10^6 bytes. One request goes over one NIC, so a window of 1 uses one NIC at a time. The data is
checked once for each point, after its last round.
"""
import argparse
import json
import statistics
import sys

import mooncake_session
from simulated_machine import SimulatedMachine

MIB = 1 << 20
SEED = 3


def numbers(text):
    return [int(part) for part in text.split(",")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("provider-dir", "preload", "simefactl"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sizes", type=numbers, default=[8, 4096, 65536, MIB], help="bytes, comma separated")
    parser.add_argument("--windows", type=numbers, default=[1, 16, 64], help="requests a call, comma separated")
    parser.add_argument("--op", choices=("write", "read"), default="write")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--room", type=int, default=64 * MIB, help="bytes that each side registers; a window repeats in it")
    parser.add_argument("topology", help="hwloc XML of the machine")
    return parser.parse_args()


def point(sides, arguments, size, window):
    initiator, target = sides
    span = min(size * window, arguments.room // size * size)
    sender, receiver = (initiator, target) if arguments.op == "write" else (target, initiator)
    sender.ask("fill", seed=SEED, offset=0, length=span)
    receiver.ask("fill", seed=SEED + 1, offset=0, length=span)
    rates = []
    for _ in range(arguments.rounds):
        answer = initiator.ask("rate", limit_s=60 + 10 * arguments.seconds, op=arguments.op, segment=target.place["segment"],
                               remote=target.place["address"], size=size, window=window, seconds=arguments.seconds)
        if answer["status"] != 0:
            raise SystemExit(f"size {size}, window {window}: status {answer['status']}\n{initiator.last_words()}")
        rates.append(answer["ops"] / answer["seconds"])
    wrong = receiver.ask("check", seed=SEED, offset=0, length=span)["wrong"]
    if wrong:
        raise SystemExit(f"size {size}, window {window}: {wrong} bytes wrong")
    rate = statistics.median(rates)
    return {"size": size, "window": window, "op": arguments.op, "ops_per_s": round(rate),
            "lowest": round(min(rates)), "highest": round(max(rates)), "mb_per_s": round(rate * size / 1e6, 1),
            "us_per_op": round(1e6 / rate, 3), "seconds": arguments.seconds, "checked": True}


def main():
    arguments = parse_arguments()
    with SimulatedMachine(arguments.topology, arguments.provider_dir, arguments.preload, arguments.simefactl) as machine:
        with mooncake_session.Side(machine, 0, arguments.room) as initiator, \
                mooncake_session.Side(machine, 1, arguments.room) as target:
            points = [point((initiator, target), arguments, size, window)
                      for size in arguments.sizes for window in arguments.windows]
            counters = machine.counters(0)
    json.dump({"program": mooncake_session.PACKAGE, "machine": machine.topology.stem, "nics": len(machine.nics),
               "rounds": arguments.rounds, "results": points, "counters": counters}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    try:
        main()
    except mooncake_session.NotHere as reason:
        sys.exit(str(reason))
