"""The stock NIXL host from the package index, in a cached virtual environment: for its tests and for benchmark/compare.py."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

HOST_PACKAGE = "nixl-cu12==1.5.1"
HELPER_PACKAGE = "numpy"
INSTALL_LIMIT_S = 300


class Missing(Exception):
    """It cannot be had here; the text says why."""


def cache_directory(argument=None):
    if argument:
        return pathlib.Path(argument)
    if os.environ.get("RAILYARD_CACHE"):
        return pathlib.Path(os.environ["RAILYARD_CACHE"]) / "stock-host"
    return pathlib.Path(__file__).resolve().parents[2] / "build" / "stock-host"


def run_quietly(command, limit_s):
    """Returns None when the command succeeds, else why it did not."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"no end after {limit_s} s"
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit status {done.returncode}"


def host_python(cache, package=HOST_PACKAGE, *others):
    """The interpreter of a virtual environment that holds the stock host of that package, and its folder; installs it once, with the
    other packages that it needs."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    root = cache / f"{package.replace('==', '-')}-python{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(f"{root}.lock", "w", encoding="ascii") as lock:  # kept until it is closed
        fcntl.flock(lock, fcntl.LOCK_EX)
        return installed(root, version, (HELPER_PACKAGE, package, *others))


def installed(root, version, packages):
    """The same under the folder's lock: whoever else wants it meanwhile waits, and finds it."""
    python = root / "bin" / "python"
    complete = root / "complete"
    if complete.exists() and python.exists():
        return python, root
    shutil.rmtree(root, ignore_errors=True)
    why = run_quietly([sys.executable, "-m", "venv", str(root)], INSTALL_LIMIT_S)
    if why:
        raise Missing(f"python3 -m venv does not work here ({why}); install python3-venv")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps"]
    for name in packages:
        print(f"installing {name} into {root}", file=sys.stderr, flush=True)
        why = run_quietly(pip + ["--only-binary", ":all:", name], INSTALL_LIMIT_S)
        if why:
            raise Missing(f"pip cannot install {name} for Python {version}: {why}")
    complete.touch()
    return python, root


def library_directory(root):
    """Of the host's libraries, its plugins in `plugins` below; None where the wheel has another shape."""
    found = list(root.glob("lib/python*/site-packages/.nixl_cu12.mesonpy.libs/libnixl_capi.so"))
    return found[0].parent if found else None
