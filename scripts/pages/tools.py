"""The tools' options, as the programs themselves tell them."""
import dataclasses
import os
import re
import subprocess

LIMIT = 30  # seconds that a program may take to print its help
COLUMN = 30  # where CLI11 begins the descriptions
HEAD = re.compile(
    r"(?P<names>-[\w-]+(?:, ?-[\w-]+)*)(?:\{\w+\})?"
    r"(?: (?P<type>[A-Z]+)(?::[A-Z]+)?(?: in \[(?P<low>\S+) - (?P<high>\S+)\])?"
    r"(?:=(?P<default>\S+)| \[(?P<bracketed>[^\]]*)\])?)?"
    r"(?P<many> \.\.\.)?(?: {1,2}Excludes:(?P<excludes>(?: --[\w-]+)+))?\s*")
# Tools read values before they look at what belongs together: these arguments end every run with a usage error.
WRONG = {"railyard-bench": ["--peer", "host:1", "--raw", "--raw-only"], "railyard-flow": ["--grain-size", "1"]}


@dataclasses.dataclass
class Option:
    names: list  # the long one last
    value: str  # what the value is called, "" for a flag
    many: bool
    low: str
    high: str
    default: str
    excludes: list
    text: str
    choices: list = dataclasses.field(default_factory=list)

    @property
    def name(self):
        return self.names[-1]


@dataclasses.dataclass
class Command:
    name: str  # "" for the program itself
    text: str
    options: list


@dataclasses.dataclass
class Tool:
    name: str
    version: str
    commands: list  # the program first


def run(program, *arguments):
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("RAILYARD_", "NIXL_", "HWLOC_"))}
    return subprocess.run([program, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=LIMIT, check=False)


def entries(text, section):
    """The lines of each entry of a section, the first without its indentation."""
    found, inside = [], False
    for line in text.splitlines():
        if re.fullmatch(r"\w[\w ]*:", line):
            inside = line[:-1].lower() == section
        elif inside and re.match(r"  ?\S", line):
            found.append([line])
        elif inside and line.strip():
            found[-1].append(line)
    return found


def split(lines):
    """(head, description) of an entry."""
    if HEAD.fullmatch(lines[0].strip()):
        head, rest = lines[0], lines[1:]
    else:
        head, rest = lines[0][:COLUMN], [lines[0][COLUMN:], *lines[1:]]
    return head.strip(), " ".join(line.strip() for line in rest)


def option(lines):
    head, text = split(lines)
    match = HEAD.fullmatch(head)
    if not match:
        raise ValueError(f"cannot read this line of --help: {lines[0]!r}")
    return Option(re.split(", ?", match["names"]), match["type"] or "", bool(match["many"]), match["low"] or "",
                  match["high"] or "", match["default"] or match["bracketed"] or "", (match["excludes"] or "").split(),
                  text)


def choices(program, command, asked):
    """The values that an option takes: what its refusal lists, else a list at the end of its description."""
    wrong = WRONG.get(os.path.basename(program))
    if asked.value == "TEXT" and wrong and asked.name not in wrong:
        refusal = run(program, *command, asked.name, "?", *wrong).stderr
        match = re.search(re.escape(asked.name) + r": '\?' is none of ([\w, -]+)", refusal)
        if match:
            return match[1].split(", ")
    match = re.search(r": ([\w-]+(?:, [\w-]+)+)$", asked.text)
    return match[1].split(", ") if match and asked.value == "TEXT" else []


def command_of(program, name):
    words = [name] if name else []
    done = run(program, *words, "--help")
    if done.returncode != 0:
        raise RuntimeError(f"{program} --help ends with {done.returncode}: {done.stderr}")
    found = [option(lines) for lines in entries(done.stdout, "options")]
    if not found:
        raise RuntimeError(f"{program} {name} --help lists no option")
    for one in found:
        one.choices = choices(program, words, one)
    return Command(name, done.stdout.split("\nUsage:")[0].strip(), found), done.stdout


def read(program):
    top, text = command_of(program, "")
    names = [lines[0].split()[0] for lines in entries(text, "subcommands")]
    return Tool(os.path.basename(program), run(program, "--version").stdout.strip(),
                [top, *(command_of(program, name)[0] for name in names)])
