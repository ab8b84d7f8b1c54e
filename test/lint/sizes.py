#!/usr/bin/env python3
"""Files of at most 400 lines, functions of at most 60 lines and 6 parameters.  sizes.py ROOT

Functions are found by their braces, not by a compiler: good enough for this code's style, and wrong towards silence.
"""
import re
import sys

import common

FILE_LINES = 400
FUNCTION_LINES = 60
PARAMETERS = 6
# The host's interface, and libfabric's, dictate some signatures there.
FREE_PARAMETERS = ("src/plugin/", "src/host/", "test/simefa/provider/")

SCOPE = re.compile(r"^(?:inline\s+|export\s+|template\s*<.*>\s*|typedef\s+)*"
                   r"(namespace|class|struct|union|enum|extern\s*\"\")(?!\w)(?!.*\)\s*(const|noexcept|override)?\s*$)",
                   re.DOTALL)
NOT_A_NAME = {"if", "for", "while", "switch", "catch", "return", "noexcept", "decltype", "alignas", "requires",
              "sizeof", "void", "bool", "int", "char", "double", "explicit", "__attribute__", "defined"}
NAME = re.compile(r"((?:\w+::)*operator\s*(?:\(\s*\)|[^\s(]+)|[A-Za-z_~][\w:~]*)\s*\(")


def without_directives(text):
    """Preprocessor lines blanked, with their continuations."""
    out, continued = [], False
    for line in text.split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        out.append("" if directive else line)
    return "\n".join(out)


def closing(text, start):
    """Index of the parenthesis that closes the one at `start`, or -1."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return -1


def signature(head):
    """(name, parameters) of the function whose text before the body is `head`; None when it is none."""
    for match in NAME.finditer(head):
        name = match.group(1)
        if name in NOT_A_NAME or re.fullmatch(r"[A-Z][A-Z0-9_]+", name):
            continue
        open_at = match.end() - 1
        close_at = closing(head, open_at)
        if close_at > 0:
            return name, count_parameters(head[open_at + 1:close_at])
    lambda_at = re.search(r"\]\s*\(", head)
    if lambda_at and closing(head, lambda_at.end() - 1) > 0:
        return "lambda", count_parameters(head[lambda_at.end():closing(head, lambda_at.end() - 1)])
    return None


def count_parameters(text):
    if not text.strip() or text.strip() == "void":
        return 0
    depth, count = 0, 1
    for character in text.replace("->", "").replace("<<", "").replace("<=", ""):
        if character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth == 0:
            count += 1
    return count


def initialises(head):
    """True when the brace after `head` starts an initialiser and not a body."""
    head = head.rstrip()
    if head.endswith(("=", ",", "(", "return")):
        return True
    # member{...} in a constructor's list, or a variable with braces and no parentheses before them
    in_list = re.search(r"\)\s*(noexcept\s*)?:[^:]", head)
    return bool(re.search(r"[\w>\]]$", head)) and (bool(in_list) or ")" not in head) \
        and not re.search(r"\b(const|noexcept|override|final|try|else|do|mutable)$", head)


def functions(text):
    """(name, parameters, first line, last line) of each function with a body that is not inside another one."""
    text = without_directives(common.without_noise(text))
    head, line, head_line, parens = "", 1, 1, 0
    stack = []  # ("scope" | "init" | "body", head before it, line, signature)
    for character in text:
        if character == "\n":
            line += 1
        inside = bool(stack) and stack[-1][0] != "scope"
        if character == "{":
            if inside:
                stack.append(("inner", head, line, None))
                continue
            stripped = head.strip()
            if SCOPE.match(stripped):
                stack.append(("scope", "", line, None))
                head = ""
                continue
            found = None if parens > 0 or initialises(stripped) else signature(stripped)
            stack.append(("body", head, head_line, found) if found else ("init", head, head_line, None))
        elif character == "}" and stack:
            kind, before, first, found = stack.pop()
            if kind == "body":
                yield found[0], found[1], first, line
                head = ""
            elif kind == "init":
                head = before + "{}"
            elif kind == "scope":
                head = ""
        elif not inside:
            parens += {"(": 1, ")": -1}.get(character, 0)
            if character == ";" and parens <= 0:
                head, parens = "", 0
            else:
                if not head.strip():
                    head, head_line = "", line
                head += character
                if re.search(r"(?<!:)\b(public|private|protected)\s*:$", head):
                    head = ""


def findings(root):
    for path in common.cpp_files(root, "src", "benchmark", "test/simefa/provider", "test/simefa/shared"):
        text = common.read(root, path)
        lines = text.count("\n") + (not text.endswith("\n"))
        if lines > FILE_LINES:
            yield f"{path}:1: {lines} lines, at most {FILE_LINES}: give one of its duties a file of its own"
        if path.endswith(".def"):
            continue
        for name, parameters, first, last in functions(text):
            if last - first + 1 > FUNCTION_LINES:
                yield f"{path}:{first}: {name} has {last - first + 1} lines, at most {FUNCTION_LINES}"
            if parameters > PARAMETERS and not path.startswith(FREE_PARAMETERS):
                yield f"{path}:{first}: {name} has {parameters} parameters, at most {PARAMETERS}"


if __name__ == "__main__":
    if sys.argv[1] == "--list":  # for looking at what the parser sees: sizes.py --list ROOT
        for file in common.cpp_files(sys.argv[2], "src", "benchmark"):
            for entry in functions(common.read(sys.argv[2], file)):
                print(file, *entry)
    else:
        common.report("sizes", list(findings(sys.argv[1])))
