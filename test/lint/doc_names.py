#!/usr/bin/env python3
"""What the documentation names is there: paths, options, settings, functions.  doc_names.py ROOT

Nor does code in a table have a pipe, which would have to be escaped: whoever copies it has a backslash more.
A page of decisions (docs/adr) tells of its time, and is not looked at.
"""
import functools
import glob
import os
import re
import sys

import common

CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"(?<![\w/.$~}<>:-])((?:src|test|benchmark|scripts|docs|share|include|examples|debian|\.ci|\.github)/[\w.*/{},-]+)")
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]+)")
DEFINE = re.compile(r"(?<![\w-])-D([a-z]\w+)=")
SETTING = re.compile(r"\b((?:RAILYARD|SIMEFA|FAKECUDA)_[A-Z0-9_]*[A-Z0-9])\b(?!<)")
PROGRAM = re.compile(r"(?:(?:^|[\s/$(])(railyard-(?:bench|info|flow))"
                     r"|(?:^|[\s$(])((?:benchmark|test|scripts|test/\w+)/[\w.-]+|\.ci/run))(?=\s)")
MEMBER = re.compile(r"^([A-Za-z]\w+)::(~?\w+)(?:\(\))?$")
CALL = re.compile(r"^([a-z]\w+)\(\)$")
# Of programs of others, where a page shows how they are run.
FOREIGN = {
    "--cap-add", "--collector", "--device", "--disaggregation-transfer-backend", "--gdb", "--gpus", "--kv-transfer-config", "--list",
    "--ntasks-per-node", "--setup", "--shm-size", "--ulimit", "--unix-socket",
    "--help", "--version", "--prefix"}
# A script's options, where others read them for it.
PARSERS = {"benchmark/run": ["share/completion/railyard-bench"], "benchmark/compare.py": ["benchmark/side_by_side/measure.py"],
           "test/fault/campaign": ["test/fault/main.cpp"]}
FUZZ_TARGET = re.compile(r'^ *\{"(\w+)", fuzz_\w+\},$', re.MULTILINE)
FUZZ_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \|", re.MULTILINE)
MESON = {"buildtype", "b_lto", "cpp_args", "prefix", "unity", "werror"}


def documents(root):
    for path in common.tracked_files(root):
        if path.endswith(".md") and not path.startswith(("docs/adr/", "include/")):
            yield path


def is_there(root, path):
    """A path, a pattern or alternatives in braces; what ends with a dot ended a sentence."""
    path = path.rstrip(".,")
    braces = re.search(r"\{([^{}]*)\}", path)
    if braces:
        return all(is_there(root, path[:braces.start()] + one + path[braces.end():]) for one in braces.group(1).split(","))
    return bool(glob.glob(os.path.join(root, path)))


@functools.cache
def options_of(root, program):
    """Of a tool or a script; None of what is neither."""
    own = f"share/completion/{program}" if program.startswith("railyard-") else program
    if not os.path.isfile(os.path.join(root, own)):
        return None
    sources = [own, "benchmark/table.py", *PARSERS.get(program, [])]
    return set(OPTION.findall("".join(common.read(root, path) for path in sources))) | FOREIGN


def code_of(line):
    """What is code in a line: all of it where it is indented or in a fence, else what stands between backticks."""
    return [line] if line.startswith("    ") else CODE.findall(line)


def wrong_targets(root, source, page):
    """Fuzz targets that have no row in the page's table, and what stands there and is none."""
    targets = set(FUZZ_TARGET.findall(common.read(root, source)))
    table = common.read(root, page).partition("\n## Fuzzing\n")[2].partition("\n## ")[0]
    named = set(CODE.findall(" ".join(FUZZ_ROW.findall(table))))
    for name in sorted(targets - named):
        yield f"{page}: no row for the fuzz target {name}"
    for name in sorted(named - targets):
        yield f"{page}: {source} has no {name}"


def findings(root):
    files = common.tracked_files(root)
    if "test/fuzz/targets.cpp" in files:
        yield from wrong_targets(root, "test/fuzz/targets.cpp", "docs/reliability.md")
    # Options and environment variables are looked for in the text of what reads them.
    readers = [path for path in files if not path.endswith(".md") and not path.startswith("test/lint/")]
    text = "\n".join(common.read(root, path) for path in readers)
    words = set(re.findall(r"[A-Za-z_]\w+", text)) | {"atomic_thread_fence"}
    options = set(re.findall(r"--[a-z][\w-]+", text)) | FOREIGN
    defines = set(re.findall(r"option\('(\w+)'", common.read(root, "meson_options.txt"))) | MESON
    listed = re.findall(r"^RAILYARD_PARAM\(\w+, (\w+),", common.read(root, "src/common/params.def"), re.MULTILINE)
    settings = {"RAILYARD_" + name.upper() for name in listed}
    for path in documents(root):
        fenced = False
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            if line.startswith("```"):
                fenced = not fenced
                continue
            if not fenced and line.startswith("|") and any("\\|" in code for code in CODE.findall(line)):
                yield f"{path}:{number}: code in a table has an escaped pipe: write it without one"
            for code in [line] if fenced else code_of(line):
                for name in wrong_names(root, code, words, options, defines, settings):
                    yield f"{path}:{number}: {name}"


def wrong_names(root, code, words, options, defines, settings):
    for name in PATH.findall(code):
        if not is_there(root, name):
            yield f"{name} is not there"
    programs = [tool or script for tool, script in PROGRAM.findall(code)]
    own = options_of(root, programs[0]) if len(programs) == 1 else None
    for name in OPTION.findall(code):
        if name not in (options if own is None else own):
            yield f"{'nothing here' if own is None else programs[0]} takes {'' if own is None else 'no '}{name}"
    for name in DEFINE.findall(code):
        if name not in defines:
            yield f"meson_options.txt has no {name}"
    for name in SETTING.findall(code):
        if name not in words and name not in settings:
            yield f"nothing reads {name}"
    member = MEMBER.match(code.strip()) or CALL.match(code.strip())
    for name in member.groups() if member else ():
        if name.lstrip("~") not in words and not name.startswith("fi_"):
            yield f"{name} is not in the code"


if __name__ == "__main__":
    common.report("doc_names", list(findings(sys.argv[1])))
