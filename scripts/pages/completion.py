"""Completion of the tools' command lines in bash and zsh."""
import re

SETTINGS_OPTION = "--param"  # its value is NAME=VALUE of a setting

BASH = """\
# bash completion of {tool}, written by scripts/update-docs from its --help.
# shellcheck shell=bash
_{function}() {{
    local at=$COMP_CWORD current=${{COMP_WORDS[COMP_CWORD]}} command='' option word
    COMPREPLY=()
    # Bash makes a word of each = and of what stands around it.
    if [[ $current == = ]]; then
        current=''
        ((++at))
    fi
    option=${{COMP_WORDS[at - 1]}}
    if [[ $option == = ]] && ((at > 1)); then
        option=${{COMP_WORDS[at - 2]}}
        if [[ $option != -* ]] && ((at > 3)); then
            word=${{COMP_WORDS[at - 3]}}
            [[ $word != = ]] || word=${{COMP_WORDS[at - 4]}}
            option="$word $option"
        fi
    fi
{find_command}    case $command:$option in
{values}
    esac
    case $command in
{words}
    esac
}}
complete -o default -F _{function} {tool}
"""
FIND_COMMAND = """\
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in
            {commands}) command=$word ;;
        esac
    done
"""
LIST = re.compile(r": ((?:[\w-]+, )+[\w-]+)(?: or ([\w-]+))?(?:;|$)")


def reply(words):
    return f"mapfile -t COMPREPLY < <(compgen -W '{' '.join(words)}' -- \"$current\")"


def choices_of(setting):
    """The values of a setting: all that are allowed, else those that its text lists."""
    if re.fullmatch(r"\w[\w-]*(,\w[\w-]*)+", setting["allowed"]):
        return setting["allowed"].split(",")
    match = LIST.search(setting["text"]) if setting["unit"] == "name" else None
    return match[1].split(", ") + ([match[2]] if match[2] else []) if match else []


def fill_choices(tool, settings):
    """Options that are short for a setting take its values."""
    known = {setting["name"]: choices_of(setting) for setting in reversed(settings)}
    for command in tool.commands:
        if command.name:  # options of the program may follow its command
            command.options += [option for option in tool.commands[0].options
                                if option.name not in ("--help", "--version")]
        for option in command.options:
            match = re.search(SETTINGS_OPTION + r" (\w+)=", option.text)
            if match and not option.choices:
                option.choices = known[match[1]]


def by_kind(command):
    """What to do for the value of each option: {shell code: [patterns]}."""
    kinds = {}
    for option in command.options:
        if not option.value:
            continue
        if option.value == "FILE":
            does = "return"  # readline's own names of files
        elif option.value == "DIR":
            does = "compopt -o filenames +o default\n            mapfile -t COMPREPLY < <(compgen -d -- \"$current\")\n" \
                "            return"
        elif option.choices:
            does = reply(option.choices) + "\n            return"
        elif option.name == SETTINGS_OPTION:
            does = None
        else:
            does = "compopt +o default\n            return"  # a number or a name that nobody knows
        if does:
            kinds.setdefault(does, []).append(f"{command.name}:{option.name}")
    return kinds


def settings_arms(settings):
    names = dict.fromkeys(setting["name"] + "=" for setting in settings)
    yield f":{SETTINGS_OPTION}", "compopt -o nospace\n            " + reply(names) + "\n            return"
    for setting in settings:
        if choices_of(setting):
            yield f"':{SETTINGS_OPTION} {setting['name']}'", reply(choices_of(setting)) + "\n            return"


def arm(pattern, does):
    return f"        {pattern})\n            {does}\n            ;;"


def bash(tool, settings):
    fill_choices(tool, settings)
    values = [arm(" | ".join(patterns), does) for command in tool.commands
              for does, patterns in by_kind(command).items()]
    if any(option.name == SETTINGS_OPTION for option in tool.commands[0].options):
        values += [arm(pattern, does) for pattern, does in settings_arms(settings)]
    commands = [command.name for command in tool.commands[1:]]
    find_command = FIND_COMMAND.format(commands=" | ".join(commands)) if commands else ""
    words = [arm(command.name or "''",
                 reply([name for option in command.options for name in option.names] +
                       ([] if command.name else commands))) for command in tool.commands]
    return BASH.format(tool=tool.name, function=tool.name.replace("-", "_"), find_command=find_command,
                       values="\n".join(values), words="\n".join(words))


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


def zsh_action(option, settings):
    if option.value == "FILE":
        return "_files"
    if option.value == "DIR":
        return "_files -/"
    if option.name == SETTINGS_OPTION:
        return "compadd -S = " + " ".join(dict.fromkeys(setting["name"] for setting in settings))
    return f"({' '.join(option.choices)})" if option.choices else " "


def zsh_options(command, settings):
    for option in command.options:
        value = f":{option.value.lower()}:{zsh_action(option, settings)}" if option.value else ""
        repeated = "*" if option.many else ""
        for name in option.names:
            equals = "=" if value and name.startswith("--") else ""
            yield f"'{repeated}{name}{equals}[{zsh_text(option.text)}]{value}'"


def zsh(tool, settings):
    fill_choices(tool, settings)
    lines = [f"#compdef {tool.name}", f"# zsh completion of {tool.name}, written by scripts/update-docs from its --help."]
    for command in tool.commands:
        lines += [f"local -a _{command.name or 'program'}=(", *("    " + one for one in zsh_options(command, settings)),
                  ")"]
    if len(tool.commands) == 1:
        return "\n".join([*lines, "_arguments $_program", ""])
    names = " ".join(f'{command.name}\\:"{zsh_text(command.text)}"' for command in tool.commands[1:])
    lines += ["local state line", f"_arguments -C $_program '1:command:(({names}))' '*::argument:->rest' && return",
              "case $line[1] in",
              *(f"    {command.name}) _arguments $_{command.name} ;;" for command in tool.commands[1:]), "esac", ""]
    return "\n".join(lines)
