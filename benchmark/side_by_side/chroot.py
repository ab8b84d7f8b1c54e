"""Comparisons that run in the chroot of scripts/trixie-chroot, over the NICs of a simulated machine: their options, what is built for
them there, and how the program inside is asked.

That program has its plan, a JSON object, as its only argument. Its last line is what it has found (turns.Turns' results, as pairs), or the
reason where its exit status is not 0.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROOT = ROOT / "scripts/trixie-chroot"
BUILD = ROOT / "build/trixie/release"  # made in the chroot: a client of Debian 12's libfabric gets no efa-direct from a newer one
LIMIT_S = 3600  # a round
CHROOT_FAILED, SKIPPED = 125, 77
PATHS = {  # options, where each lies, what it is
    "plugins": (BUILD / "plugins", "directory of libplugin_RAILYARD.so"),
    "provider-dir": (BUILD / "test/simefa/provider", "directory of libsimefa-fi.so"),
    "simefactl": (BUILD / "test/simefa/simefactl", ""),
}


def add_options(parser, paths):
    """Those of the machine, of the files in `paths` (like PATHS), and of what is made of the results."""
    parser.add_argument("--rails", type=int, default=4, help="so many of the machine's NICs")
    parser.add_argument("--rate", type=float, default=2, help="Gbit/s of a NIC")
    parser.add_argument("--topology", type=pathlib.Path, default=ROOT / "test/topo/p5.48xl.xml", help="hwloc XML of the machine")
    parser.add_argument("--provider", choices=("efa-direct", "efa"), default="efa-direct", help="our fabric")
    for name, (where, what) in paths.items():
        parser.add_argument(f"--{name}", type=pathlib.Path, default=where, help=f"{what}; built where none is named".strip("; "))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="put table and picture into docs")
    parser.add_argument("--corrupt", action="store_true", help=argparse.SUPPRESS)


def files(options, paths):
    return {name: getattr(options, name) for name in (path.replace("-", "_") for path in paths)}


def plan(options, paths):
    """What is the same in every plan."""
    return {name: str(path.resolve()) for name, path in ({"topology": options.topology} | files(options, paths)).items()} | {
        "rounds": options.rounds, "seconds": options.seconds, "rails": options.rails, "provider": options.provider,
        "corrupt": options.corrupt}


def run(*command, **more):
    return subprocess.run([CHROOT, *command], stdin=subprocess.DEVNULL, text=True, check=False, **more)


def build(options, paths):
    """Makes the chroot, and the programs where they are not named; SystemExit with status 77 where there can be no chroot."""
    made = run("--make", stderr=subprocess.PIPE)
    if made.returncode:
        print(f"skipped: {(made.stderr.strip().splitlines() or ['no reason given'])[-1]}")
        raise SystemExit(SKIPPED if made.returncode == CHROOT_FAILED else 1)
    if not any(BUILD in path.parents for path in files(options, paths).values()):
        return
    if run(ROOT / "benchmark/run", "--build-dir", BUILD, "--build-only", stdout=sys.stderr).returncode:
        raise SystemExit("the build in the chroot has failed")


def measure(program, its_plan):
    """What `program` has found, by cell; SystemExit with its status where it has failed, 77 where it cannot have what it needs."""
    done = run("python3", "-B", program, json.dumps(its_plan), stdout=subprocess.PIPE, timeout=LIMIT_S * its_plan["rounds"])
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    if done.returncode:
        print(last)
        raise SystemExit(done.returncode)
    return {tuple(key): result for key, result in json.loads(last)}


def facts(options):
    return f"{options.rails} NICs of a simulated {options.topology.stem}arge, {options.rate:g} Gbit/s each"
