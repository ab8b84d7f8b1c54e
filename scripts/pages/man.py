"""Manual pages: what lies between the marks is written anew, the rest is kept."""
import re
import textwrap

BEGIN = re.compile(r'^\.\\" BEGIN (options|settings) ?(\w*)$')
END = '.\\" END'
METAVARIABLES = {"TEXT": "VALUE", "UINT": "N", "INT": "N", "FLOAT": "NUMBER"}


def escaped(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def lines_of(text):
    """The text as lines of roff, none of which is taken for a request."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])--?(?=\w)", lambda match: match[0].replace("-", "\\-"), text)
    text = re.sub(r"`([^`]*)`", r"\\fI\1\\fR", text)
    return ["\\&" + line if line[:1] in ".'" else line
            for line in textwrap.wrap(text, 78, break_long_words=False, break_on_hyphens=False)]


def sentence(text):
    if not re.match(r"\S+: ", text):  # a value, and what it means
        text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."


def described(option):
    text, bracketed = option.text, re.search(r" \[([^\]]+)\]$", option.text)
    if bracketed:
        text = text[:bracketed.start()]
    parts = [sentence(text)]
    if option.low:
        parts.append(f"From {option.low} to {option.high}.")
    if bracketed or option.default:
        parts.append(f"Default: {bracketed[1] if bracketed else option.default}.")
    if option.excludes:
        parts.append(f"Not together with {' '.join(option.excludes)}.")
    return " ".join(parts)


def options(command):
    for option in command.options:
        value = METAVARIABLES.get(option.value, option.value)
        if option.value == "TEXT" and option.choices:
            value = "|".join(option.choices)
        repeated = " ..." if option.many and "repeatable" not in option.text else ""
        yield ".TP"
        yield ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.names) + \
            (f" \\fI{escaped(value)}\\fR{repeated}" if value else "")
        yield from lines_of(described(option))


def settings(listed):
    for setting in listed:
        yield ".TP"
        yield f"\\fB{escaped(setting['name'])}\\fR, \\fB{escaped(setting['env'])}\\fR"
        text = setting["text"]
        if setting["default"]:
            text += f" Default: {setting['default']}{' ' + setting['unit'] if setting['kind'] == 'count' else ''}."
        if setting["allowed"] != "any text":
            text += f" Allowed: {setting['allowed'].replace(',', ', ')}."
        yield from lines_of(text)


def page(text, version, regions):
    """The page with its regions from `regions`: {("options", command) or ("settings", ""): lines}."""
    written, skipping, unused = [], False, set(regions)
    for line in text.splitlines():
        match = BEGIN.match(line)
        if line == END:
            skipping = False
        if not skipping:
            written.append(re.sub(r'"Railyard [^"]*"', f'"Railyard {version}"', line)
                           if line.startswith(".TH ") else line)
        if match:
            written += regions[match[1], match[2]]
            unused.remove((match[1], match[2]))
            skipping = True
    if skipping or unused:
        raise ValueError(f"the page has no mark for {sorted(unused)}" if unused else f"{END} is missing")
    return "\n".join(written) + "\n"
