"""The completion files in a real shell on a terminal: what a line of keys becomes.  completion_test.py SHELL DIRECTORY"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import unittest

SHELL = sys.argv.pop(1)
COMPLETIONS = pathlib.Path(sys.argv.pop(1)).resolve()
TOOLS = ["railyard-info", "railyard-flow", "railyard-bench"]
LIMIT = 30
START = {"bash": ["bash", "--noprofile", "--rcfile", "rc", "-i"], "zsh": ["zsh", "-d", "-i"]}
RC = {"bash": "bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; PS1='READY '\n" +
              "".join(f"source {COMPLETIONS}/{tool}\n" for tool in TOOLS),
      "zsh": f"unset zle_bracketed_paste; fpath=({COMPLETIONS} $fpath); autoload -Uz compinit; compinit -u -D\n"
             "unsetopt beep; PS1='READY '\n"}


class Terminal:
    """A shell on a terminal of its own, in which each tool only prints what it was given."""

    def __init__(self, folder):
        tools = "".join(f"{tool}() {{ printf 'GIVEN'; printf '<%s>' \"$@\"; echo END; }}\n" for tool in TOOLS)
        for name in ("rc", ".zshrc"):
            pathlib.Path(folder, name).write_text(RC[SHELL] + tools, encoding="utf-8")
        environment = {"PATH": os.environ["PATH"], "HOME": folder, "ZDOTDIR": folder, "TERM": "dumb", "LC_ALL": "C.UTF-8"}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(START[SHELL][0], START[SHELL], environment)
        self.seen = ""
        self.wait_for("READY ")

    def wait_for(self, pattern):
        deadline = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.seen)):
            if not select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{SHELL} did not print {pattern!r} in {LIMIT} s, but {self.seen!r}")
            self.seen += os.read(self.terminal, 4096).decode(errors="replace").replace("\r", "")
        self.seen = self.seen[match.end():]
        return match

    def type(self, keys):
        """The arguments that the tool gets when `keys` are typed."""
        os.write(self.terminal, keys.encode() + b"\n")
        given = self.wait_for("GIVEN(.*)END")[1]
        return re.findall("<([^>]*)>", given)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


class Completion(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="railyard-completion-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.shell = Terminal(self.folder)
        self.addCleanup(self.shell.close)

    def check(self, keys, *arguments):
        self.assertEqual(self.shell.type(keys), list(arguments), keys)

    def test_options_and_their_values(self):
        self.check("railyard-bench --op wri\t", "--op", "write")
        self.check("railyard-bench --op=bo\t", "--op=both")
        self.check("railyard-bench --provider tcp-\t", "--provider", "tcp-msg")
        self.check("railyard-info --provider verbs-\t", "--provider", "verbs-msg")
        both = ["--target-mem=vram"] if SHELL == "zsh" else ["--target-mem", "vram"]
        self.check("railyard-bench --raw --target-me\tvr\t", "--raw", *both)

    def test_commands_and_their_options(self):
        self.check("railyard-flow tar\t--provider ef\t", "target", "--provider", "efa")
        self.check("railyard-flow initiator --send\t", "initiator", "--send-slices")
        self.check("railyard-flow target --send\t", "target", "--send")

    def test_options_of_the_program_after_its_command(self):
        self.check("railyard-info doc\t--off\t", "doctor", "--offline")

    def test_settings(self):
        self.check("railyard-bench --param vram_st\t", "--param", "vram_staging=")

    def test_files_and_folders(self):
        pathlib.Path(self.folder, "machine.xml").touch()
        pathlib.Path(self.folder, "machines").mkdir()
        self.check("railyard-info --xml machine.\t", "--xml", "machine.xml")
        self.assertEqual(self.shell.type("railyard-bench --plugin-dir mach\t")[1].rstrip("/"), "machines")
        self.check("railyard-bench --seconds mach\t", "--seconds", "mach")


if __name__ == "__main__":
    if not shutil.which(SHELL):
        print(f"{SHELL} is not installed")
        sys.exit(77)
    unittest.main()
