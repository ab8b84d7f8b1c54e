"""Instructions by object file, from valgrind's callgrind."""

import os
import pathlib
import re
import subprocess
import tempfile

REFERENCE = re.compile(r"\((\d+)\)(?: (.*))?$")


def run(command, function, environment=None, timeout=600):
    """Runs `command` under callgrind, collecting inside `function` (a pattern) only.

    Returns its standard output and {object file name: instructions}.
    """
    output, (costs,) = parts(command, [f"--toggle-collect={function}"], environment, timeout)
    return output, costs


def parts(command, options, environment=None, timeout=600):
    """The same with callgrind's own options; one dictionary for each part that they make it dump, and none of what is left at the end
    where there is any."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        done = subprocess.run(
            ["valgrind", "--quiet", "--fair-sched=yes", "--tool=callgrind", "--collect-atstart=no",
             *options, f"--callgrind-out-file={out}", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=timeout, check=True,
            env={**os.environ, **(environment or {})})
        dumped = sorted(out.parent.glob(out.name + ".*"), key=lambda path: int(path.suffix[1:])) or [out]
        return done.stdout, [by_object(path.read_text()) for path in dumped]


def by_object(text):
    """Self cost of each object file in the text of a callgrind output file."""
    names, costs = {}, {}
    current, skip = None, False
    for line in text.splitlines():
        if line.startswith("ob="):
            number, name = REFERENCE.search(line).groups()
            if name:
                names[number] = name
            current = names[number]
        elif line.startswith("cob="):
            number, name = REFERENCE.search(line).groups()
            if name:
                names[number] = name
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee cost, which it has for itself
        elif line and (line[0].isdigit() or line[0] in "+-*"):
            if not skip and current:
                costs[current] = costs.get(current, 0) + int(line.split()[1])
            skip = False
    return costs
