"""Inside the chroot of beside_libfabric.py: ours and the stock LIBFABRIC plugin in turns, slice by slice, over the NICs of a simulated
machine.

    libfabric_turns.py PLAN

PLAN is the JSON object that beside_libfabric.py makes. Prints what was found as one line of JSON; exit status 77 with the reason on the
last line where the stock host cannot be had.
"""

import functools
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import slices
import stock_host
import turns

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/strangers"))
import simulated_machine  # noqa: E402

HOST_PACKAGE = "nixl-cu12==1.5.0"  # 1.5.1's plugin wants libfabric's FABRIC_1.10, which Debian 13 does not have
CUDA_PACKAGE = "nvidia-cuda-runtime-cu12==12.9.79"  # the plugin is linked with it
ALL_NICS = {"max_bw_per_dram_seg": "1000000"}  # for host memory; both plugins have it
FIRST = {"op": "WRITE", "size": 1 << 20, "batch": 64, "notify": False, "window": 1, "name": "first"}
# What the plugin wants of CUDA's driver, and asks for GPU memory alone. 100: there is no device.
CUDA_DRIVER = "".join(f"int {name}(void) {{ return 100; }}\n"
                      for name in ("cuCtxSetCurrent", "cuDeviceGetPCIBusId", "cuPointerGetAttributes"))
LOG_LINES = 10
NOISE = re.compile(rb"NUMA")  # it looks for nodes that the simulated machine has and this one has not
OVERRUN = re.compile(rb"completion queue of \d+ entries overrun")  # the simulated provider, before it aborts


class Theirs(slices.Pair):
    """Two processes of the stock plugin. What they say on standard error is kept, and its end shown where it does not say why they fail."""

    def __init__(self, *arguments):
        self.log = tempfile.TemporaryFile()
        super().__init__(*arguments, errors=self.log)

    def answer(self):
        try:
            return super().answer()
        except slices.Failed as why:
            raise slices.Failed(self.reason(why)) from why

    def reason(self, why):
        self.log.seek(0)
        said = self.log.read()
        if overrun := OVERRUN.search(said):
            return overrun.group().decode()
        lines = [line for line in said.splitlines() if not NOISE.search(line)]
        print(b"\n".join(lines[-LOG_LINES:]).decode(errors="replace"), file=sys.stderr, flush=True)
        return str(why)

    def end(self):
        super().end()
        self.log.close()


class Sides:
    """What makes pairs of ours and of theirs, on hosts of their own of one machine. `folder` is for a CUDA driver."""

    def __init__(self, plan, machine, folder):
        self.plan, self.machine = plan, machine
        self.python, self.root = stock_host.host_python(stock_host.cache_directory(), HOST_PACKAGE, CUDA_PACKAGE)
        libraries = stock_host.library_directory(self.root)
        runtime = list(self.root.glob("lib/python*/site-packages/nvidia/cuda_runtime/lib/libcudart.so.12"))
        if libraries is None or not (libraries / "plugins/libplugin_LIBFABRIC.so").exists() or not runtime:
            raise stock_host.Missing("the wheels hold no LIBFABRIC plugin, or no CUDA runtime, where they used to")
        self.their_plugins = libraries / "plugins"
        # The wheel brings a libnuma of its own, and the distribution's libfabric another: with both, their process ends in the making.
        self.their_environment = {"LD_LIBRARY_PATH": f"{folder}:{runtime[0].parent}", "LD_PRELOAD": "libnuma.so.1"}
        subprocess.run(["gcc", "-shared", "-Wl,-soname,libcuda.so.1", "-o", str(folder / "libcuda.so.1"), "-x", "c", "-"],
                       input=CUDA_DRIVER, text=True, check=True)

    def hosts(self, side):
        """The initiator's and the target's."""
        return {"ours": (0, 1), "theirs": (2, 3)}[side]

    def make(self, side, thread, corrupt):
        initiator, target = self.hosts(side)
        backend = "RAILYARD" if side == "ours" else self.plan["against"]
        params = ALL_NICS | ({"provider": self.plan["provider"]} if backend == "RAILYARD" else {})
        its_plan = {"backend": backend, "params": params, "progress_thread": thread, "target_environment": {"SIMEFA_HOST": str(target)},
                    "corrupt": corrupt}
        environment = self.machine.environment(initiator)
        if backend == "RAILYARD":
            return slices.Pair(self.python, self.plan["plugins"], its_plan, environment)
        return Theirs(self.python, self.their_plugins, its_plan, environment | self.their_environment)

    def try_out(self, side):
        """Failed where it does not work at all, or not over all NICs: no cell's failure."""
        pair = self.make(side, True, False)
        try:
            pair.take_turn({"begin": FIRST})
            counters = self.machine.counters(self.hosts(side)[0])
            idle = [name for name, _ in self.machine.nics if counters.get(name, {}).get("bytes_out", 0) == 0]
            if idle:
                raise slices.Failed(f"{', '.join(idle)} carried nothing")
        finally:
            pair.end()


def set_nics(machine, settings):
    machine.control("reset")
    if settings:
        machine.control("set", *settings)


def measure(plan, machine, sides):
    found = turns.Turns(plan["rounds"])
    for round_number in range(plan["rounds"]):
        for group in plan["groups"]:
            found.announce(round_number, group["where"])
            set_nics(machine, group["settings"])
            makers = [(side, functools.partial(sides.make, side, group["progress_thread"], plan["corrupt"]))
                      for side in turns.in_order(("ours", "theirs"), round_number)]
            by_key = {(group["scenario"], group["progress_thread"], cell["name"]): cell for cell in group["cells"]}
            for side, (times, errors) in slices.measure(group["cells"], makers, plan["slices"], plan["seconds"]).items():
                found.add(side, by_key, times, errors)
    return found.results


def main():
    plan = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nobody is left stopped
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        topology = folder / pathlib.Path(plan["topology"]).name
        simulated_machine.keep_first_nics(plan["topology"], plan["rails"], topology)
        with simulated_machine.SimulatedMachine(topology, plan["provider_dir"], None, plan["simefactl"]) as machine:
            try:
                sides = Sides(plan, machine, folder)
                for side in ("ours", "theirs"):
                    sides.try_out(side)
            except stock_host.Missing as why:
                print(f"skipped: {why}")
                return 77
            except slices.Failed as why:
                print(f"{side} does not work here: {why}")
                return 1
            results = measure(plan, machine, sides)
    print(json.dumps([[key, result] for key, result in results.items()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
