#!/usr/bin/env python3
"""Runs the plugin inside the stock NIXL host from the package index.

Installs the host's wheel (no dependencies, numpy besides) into a cached virtual environment, then runs the cases of
stock_host_agents.py (the Python package, two processes) and stock_host_capi.py (the C interface) over loopback, or
those of stock_host_gpu.py.
Exit status: 0 all passed, 1 a failure, 77 skipped, with the reason on the last line.
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmark/side_by_side"))
import stock_host  # noqa: E402

LOG_LINES = 60
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def dump_stacks(pid):
    if shutil.which("gdb") is None:
        print("gdb is not installed: no native stacks")
        return
    try:
        subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace 20"],
                       timeout=60, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        print("gdb did not come back")


def report(command, output, log, failure):
    """Prints a group's lines and, if it failed, the end of what it logged. Returns counts of passed and failed cases."""
    print(output, end="", flush=True)
    passed = sum(line.startswith("ok ") for line in output.splitlines())
    failed = sum(line.startswith("FAILED ") for line in output.splitlines())
    if failure is None and passed + failed == 0:
        failure = "ran no case"
    if failure is not None and (failed == 0 or "no end" in failure):
        print(f"FAILED {' '.join(command[1:])}: {failure}")
        failed += 1
    if failed:
        log.seek(0)
        print("--- last lines of its standard error")
        print("".join(log.read().decode(errors="replace").splitlines(keepends=True)[-LOG_LINES:]))
        print("---", flush=True)
    return passed, failed


def run_group(command, environment, limit_s):
    """Runs one group of cases; returns its counts of passed and failed cases."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
                                   process_group=0)
        failure = None
        try:
            output, _ = process.communicate(timeout=limit_s)
            if process.returncode != 0:
                failure = f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            failure = f"no end after {limit_s} s"
            dump_stacks(process.pid)
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        return report(command, output, log, failure)


def plugin_directory(plugin, root):
    """One object under its own name and under the stock backend's, as an installation with the alias has it."""
    shutil.copy2(plugin, root / "libplugin_RAILYARD.so")
    (root / "libplugin_LIBFABRIC.so").symlink_to("libplugin_RAILYARD.so")
    return root


def groups(python, here, libraries, arguments):
    if arguments.gpu:
        for provider in arguments.providers.split(","):
            yield [str(python), str(here / "stock_host_gpu.py"), "--provider", provider, "--progress-thread",
                   "off" if provider == "shm" else "on"]
        return
    agents = [str(python), str(here / "stock_host_agents.py")]
    example = [str(python), str(here.parents[1] / "examples" / "two_agents.py")]
    for provider in arguments.providers.split(","):
        yield example + ["--provider", provider] + (["--devices", "lo"] if provider == "tcp" else [])
    for provider in arguments.providers.split(","):
        for progress_thread in ("on", "off"):
            yield agents + ["--provider", provider, "--progress-thread", progress_thread]
    first = arguments.providers.split(",")[0]
    yield agents + ["--provider", first, "--progress-thread", "on", "--backend", "LIBFABRIC", "--rails", "4"]
    yield agents + ["--provider", first, "--progress-thread", "on", "--figures"]
    if libraries is None:
        print("FAILED capi: the wheel holds no libnixl_capi.so")
        return
    for progress_thread in ("on", "off"):
        yield [str(python), str(here / "stock_host_capi.py"), "--library", str(libraries / "libnixl_capi.so"),
               "--provider", first, "--progress-thread", progress_thread]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugin", required=True, help="libplugin_RAILYARD.so to test")
    parser.add_argument("--cache", help="where the virtual environment is kept")
    parser.add_argument("--providers", default="tcp,shm")
    parser.add_argument("--limit", type=int, default=120, help="seconds for each group of cases")
    parser.add_argument("--gpu", action="store_true", help="GPU memory, on the fake driver that LD_LIBRARY_PATH leads to")
    parser.add_argument("--only", default="", help="run only the groups whose command holds this text")
    arguments = parser.parse_args()
    plugin = pathlib.Path(arguments.plugin).resolve()
    if not plugin.is_file():
        print(f"FAILED: no plugin at {plugin}")
        return 1
    try:
        python, root = stock_host.host_python(stock_host.cache_directory(arguments.cache))
    except stock_host.Missing as why:
        skip(why)
    here = pathlib.Path(__file__).resolve().parent
    passed, failed = 0, 0
    namespace = f"stock-host-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="railyard-stock-host-") as directory:
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith(("NIXL_", "RAILYARD_")) or key in ("RAILYARD_LOG_LEVEL", "RAILYARD_LOCAL_RAIL")}
        environment["NIXL_PLUGIN_DIR"] = str(plugin_directory(plugin, pathlib.Path(directory)))
        environment["SIMEFA_NAMESPACE"] = namespace  # where meson.build names the simulated EFA provider
        environment["NIXL_LOG_LEVEL"] = os.environ.get("NIXL_LOG_LEVEL", "ERROR")
        environment["RAILYARD_STATS_FILE"] = f"{directory}/%a.prom"  # where case_way looks
        for command in groups(python, here, stock_host.library_directory(root), arguments):
            if arguments.only not in " ".join(command):
                continue
            good, bad = run_group(command, environment, arguments.limit)
            passed, failed = passed + good, failed + bad
    for left in pathlib.Path("/dev/shm").glob(f"*{namespace}*"):
        print(f"FAILED: left {left} behind")
        failed += 1
    print(f"stock host: {passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
