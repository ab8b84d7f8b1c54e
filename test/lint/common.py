"""What the lints share: which files there are, and C++ text without comments and strings."""
import os
import re
import subprocess
import sys

CPP_SUFFIXES = (".cpp", ".h", ".c", ".def", ".h.in")
SKIPPED = 77  # exit status of a test that could not run; its last line is the reason


def tracked_files(root):
    """Paths relative to `root` of the repository's own files: git's list with what it does not ignore, else a walk."""
    if os.path.exists(os.path.join(root, ".git")):
        command = ["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z", "--cached", "--others",
                   "--exclude-standard"]
        try:
            listing = subprocess.run(command, check=True, capture_output=True).stdout
            names = [os.fsdecode(name) for name in listing.split(b"\0") if name]
            return sorted(name for name in set(names) if os.path.isfile(os.path.join(root, name)))
        except (OSError, subprocess.CalledProcessError):
            pass
    found = []
    for folder, folders, names in os.walk(root):
        relative = os.path.relpath(folder, root)
        folders[:] = [name for name in folders
                      if name not in (".git", "__pycache__", ".cache") and os.path.join(relative, name) != "./build"]
        found += [os.path.normpath(os.path.join(relative, name)) for name in names if not name.endswith(".pyc")]
    return sorted(found)


def cpp_files(root, *folders):
    return [path for path in tracked_files(root)
            if path.endswith(CPP_SUFFIXES) and path.startswith(tuple(folder + "/" for folder in folders))]


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


_NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'", re.DOTALL)


def without_noise(text):
    """The text with comments blanked and literals emptied; every line stays where it was."""
    def blank(match):
        found = match.group(0)
        kept = "\n" * found.count("\n")
        if found.startswith("/"):
            return kept or " "
        return ('""' if found[0] in 'R"' else "0") + kept
    return _NOISE.sub(blank, text)


def report(name, findings):
    """Prints the findings; exit status of the lint."""
    for finding in findings:
        print(finding)
    print(f"{name}: {len(findings)} findings" if findings else f"{name}: nothing found")
    sys.exit(1 if findings else 0)
