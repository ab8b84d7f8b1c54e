"""Two Mooncake agents on two hosts of a simulated machine, and the virtual environment that Mooncake runs in."""
import json
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile

PACKAGE = "mooncake-transfer-engine-efa-non-cuda==0.3.13.post1"
LIBRARY = "/mooncake/engine.so"  # end of the path of the library that looks for devices
INSTALL_LIMIT_S = 240
CHROOT_MARK = pathlib.Path("/complete")
LOG_LINES = 40


class NotHere(Exception):
    """Mooncake cannot run on this machine; the text says why."""


def interpreter():
    """Python of a virtual environment that holds Mooncake; made once in each chroot."""
    if not CHROOT_MARK.exists():
        raise NotHere("not in the chroot of scripts/trixie-chroot")
    root = pathlib.Path("/opt/strangers") / PACKAGE.replace("==", "-")
    python = root / "bin" / "python"
    if (root / "complete").exists():
        return python
    shutil.rmtree(root, ignore_errors=True)
    print(f"installing {PACKAGE} into {root}", flush=True)
    for command in ([sys.executable, "-m", "venv", str(root)],
                    [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-deps",
                     "--only-binary", ":all:", PACKAGE]):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=INSTALL_LIMIT_S, check=False)
        except subprocess.TimeoutExpired as expired:
            raise NotHere(f"{' '.join(command[1:4])}: no end after {INSTALL_LIMIT_S} s") from expired
        if done.returncode:
            raise NotHere(f"{' '.join(command[1:4])}: {(done.stdout.strip().splitlines() or ['?'])[-1]}")
    (root / "complete").touch()
    return python


class Side:
    """One agent process. `ask` answers within its limit or raises; leaving the block kills the process."""

    def __init__(self, machine, host, room):
        program = pathlib.Path(__file__).with_name("mooncake_agent.py")
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [str(interpreter()), "-B", str(program), str(room)], env=machine.environment(host, LIBRARY),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1)
        self.host = host
        self.place = None

    def __enter__(self):
        try:
            self.place = self._answer(60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def ask(self, do, limit_s=60, **arguments):
        self.process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        return self._answer(limit_s)

    def _answer(self, limit_s):
        # Lines of Mooncake's own may come on standard output, too.
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
            line = self.process.stdout.readline() if ready else ""
            if line.startswith("{"):
                return json.loads(line)
            if not line:
                why = f"exit status {self.process.wait(10)}" if ready else f"no answer within {limit_s} s"
                raise RuntimeError(f"agent on host {self.host}: {why}\n{self.last_words()}")

    def last_words(self):
        self.log.seek(0)
        return b"".join(self.log.read().splitlines(keepends=True)[-LOG_LINES:]).decode(errors="replace")
