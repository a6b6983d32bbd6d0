"""Command `completion`: shell completion scripts for bash, zsh and fish, and the words that they suggest.

The scripts run `mcphost completion words` whenever Tab is pressed, so they never become outdated. That command reads
names from the configuration, the remembered models and the stored conversations. It starts no server, imports neither
the UI nor a model library, and never prompts. Because names may come from a repository, names that contain shell
metacharacters are not suggested.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcphost.cli import parser as parsing
from mcphost.cli.parser import COMMANDS, EDIT_ACTIONS
from mcphost.cli.printing import print_text
from mcphost.errors import McpHostError

MAX_WORDS = 500
MAX_TYPED = 65_536
"""Maximum number of characters of the typed command line that are read."""

MAX_FILE_BYTES = 2_000_000
MAX_CONVERSATIONS = 50
"""Maximum number of conversations offered, newest first."""

FILES = ":files"
"""Printed instead of words where a file name is expected; the shell then completes file names."""

_PLAIN_WORD = re.compile(r"[A-Za-z0-9_@%+,./:=-]{1,200}")
_FILE_METAVARS = frozenset({"FILE", "DIR", "JSON|@FILE|-", "ROW|FILE"})
_SERVER_METAVARS = frozenset({"SERVER"})

BASH = r"""
_mcphost() {
    local typed=${COMP_LINE:0:COMP_POINT} line word prefix=
    local -a words
    read -ra words <<< "$typed"
    if [[ $typed == *[[:space:]] ]]; then words+=(""); fi
    word=${words[${#words[@]}-1]}
    # bash replaces only what follows the last ":" or "=" of the word.
    if [[ $word == *[:=]* && $COMP_WORDBREAKS == *:* ]]; then prefix=${word%"${word##*[:=]}"}; fi
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            compopt -o default 2>/dev/null || COMPREPLY=($(compgen -f -- "$word"))
            return
        fi
        COMPREPLY+=("${line#"$prefix"}")
    done < <(printf '%s\n' "${words[@]:1}" | mcphost completion words 2>/dev/null)
}
complete -F _mcphost mcphost
""".lstrip()
ZSH = """\
#compdef mcphost
_mcphost() {
    local -a offered
    offered=("${(@f)$(print -rl -- "${(@)words[2,CURRENT]}" | mcphost completion words 2>/dev/null)}")
    if [[ $offered[1] == ":files" ]]; then _files; else compadd -- $offered; fi
}
compdef _mcphost mcphost
"""
FISH = """\
function __mcphost_words
    set -l typed (commandline -opc) (commandline -ct)
    set -l offered (printf '%s\\n' $typed[2..-1] | mcphost completion words 2>/dev/null)
    if test "$offered[1]" = ":files"
        __fish_complete_path (commandline -ct)
    else
        printf '%s\\n' $offered
    end
end
complete -c mcphost -f -a '(__mcphost_words)'
"""
SCRIPTS: dict[str, str] = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `completion` command to *parser*."""
    parser.add_argument(
        "shell",
        choices=(*SCRIPTS, "words"),
        help="print the script of this shell; words: read the words typed after mcphost from stdin, one per line",
    )


def run(command: str, args: argparse.Namespace) -> int:
    """Print the completion script for a shell, or the completions of a partly typed command line.

    If the argument is `words`, the command line is read from standard input. Otherwise, the argument names the
    shell.
    """
    if args.shell != "words":
        print_text(SCRIPTS[args.shell])
        return 0
    # Read from stdin, because argparse would drop "--" from arguments.
    typed = sys.stdin.read(MAX_TYPED).removesuffix("\n").split("\n")
    for word in suggest_words(typed, getattr(args, "config_dir", "")):
        print_text(word)
    return 0


def suggest_words(words: list[str], config_dir: str = "") -> list[str]:
    """Return the possible completions of the last of *words*, which may be an empty string.

    Returns `[":files"]` if a file name is expected, so that the shell completes file names itself. *config_dir* is the
    configuration folder, or "" for the default.
    """
    *before, current = words
    name, separator, value = current.partition("=")
    if name.startswith("--") and separator:
        found = suggest_words([*before, name, value], config_dir)
        return [] if found == [FILES] else [f"{name}={word}" for word in found]
    try:
        line = _parse(before)
    except (argparse.ArgumentError, SystemExit, ImportError):
        return []
    if line.after_separator:
        return [FILES]
    if line.pending is not None:
        found = _values_of(line.pending, line, config_dir)
    elif current.startswith("-"):
        found = _option_names(line.actions)
    elif not line.command:
        found = list(COMMANDS)
    else:
        found = _positional_values(line, config_dir)
    if found == [FILES]:
        return found
    named = (word for word in found if word.startswith(current) and word != FILES)
    plain = [word for word in named if _PLAIN_WORD.fullmatch(word)]
    if not plain and FILES in found:
        return [FILES]
    return sorted(dict.fromkeys(plain))[:MAX_WORDS]


class _Line(NamedTuple):
    """A partly typed command line; `pending` is the option whose value is expected next, or None."""

    command: str
    action: str
    actions: list[argparse.Action]
    positionals: list[str]
    pending: argparse.Action | None = None
    after_separator: bool = False


def _parse(words: list[str]) -> _Line:
    actions = _global_actions()
    command = action = ""
    positionals: list[str] = []
    pending: argparse.Action | None = None
    for place, word in enumerate(words):
        if pending is not None:
            pending = None
        elif word == "--":
            return _Line(command, action, actions, positionals, after_separator=True)
        elif word.startswith("-") and word != "-":
            option = next((one for one in actions if word in one.option_strings), None)
            takes_value = option is not None and option.nargs != 0
            pending = option if takes_value else None
        elif not command:
            if word not in COMMANDS:
                return _Line("", "", [], [])
            command = word
            action = _find_action(command, words[place + 1 :])
            actions = _command_actions(command, action)
        else:
            positionals.append(word)
    if action and positionals and positionals[0] == action:
        positionals = positionals[1:]
    return _Line(command, action, actions, positionals, pending)


def _find_action(command: str, rest: list[str]) -> str:
    """Return the action of the `servers` command in *rest*, such as "add", if it defines arguments of its own.

    *rest* contains the words that follow *command*. Returns "" for other actions and other commands.
    """
    first = next((word for word in rest if not word.startswith("-")), "")
    return first if command == "servers" and first in EDIT_ACTIONS else ""


def _global_actions() -> list[argparse.Action]:
    parser = parsing.CommandParser(allow_abbrev=False)
    parsing.add_model_flag(parser)
    parsing.add_resume_flag(parser)
    parsing.add_global_flags(parser)
    return _list_actions(parser)


def _command_actions(command: str, action: str) -> list[argparse.Action]:
    from mcphost.cli.main import module_of

    module: Any = import_module(module_of(command, action))
    parser = parsing.command_parser(command, action)
    module.add_arguments(action or command, parser)
    return _list_actions(parser)


def _list_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    # argparse has no public list of a parser's actions.
    return cast("list[argparse.Action]", vars(parser)["_actions"])


def _option_names(actions: list[argparse.Action]) -> list[str]:
    return [name for one in actions if one.help != argparse.SUPPRESS for name in one.option_strings if len(name) > 2]


def _positional_values(line: _Line, config_dir: str) -> list[str]:
    places = [one for one in line.actions if not one.option_strings and one.help != argparse.SUPPRESS]
    if not places:
        return []
    place = min(len(line.positionals), len(places) - 1)
    if len(line.positionals) >= len(places) and places[-1].nargs not in ("*", "+"):
        return []
    found = _values_of(places[place], line, config_dir)
    if line.command == "servers" and not line.action and place == 0:
        found = [*found, *EDIT_ACTIONS]
    return found


def _values_of(action: argparse.Action, line: _Line, config_dir: str) -> list[str]:
    """Return possible values for *action*, which is an option or a positional argument.

    *line* is the partly typed command line, and *config_dir* is the configuration folder, or "" for the default.
    """
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if metavar in _FILE_METAVARS:
        return [FILES]
    if metavar == "HOST|FILE":
        from mcphost.config.host_formats import HOSTS

        return [*(host.id for host in HOSTS), FILES]
    if metavar == "PROVIDER" and line.command == "models":
        from mcphost.llm.providers import KEY_VARIABLES, LOCAL_PROVIDERS

        return [*KEY_VARIABLES, *LOCAL_PROVIDERS]
    if metavar in _SERVER_METAVARS or (metavar == "NAME" and line.command == "servers" and line.action != "add"):
        return list(_read_quietly(_iter_server_names, config_dir))
    if action.dest == "profile" or metavar == "PROFILE":
        return list(_read_quietly(_iter_profiles, config_dir))
    if action.dest == "model":
        return list(_read_quietly(_iter_models, config_dir))
    if action.dest in ("resume", "id"):
        return list(_read_quietly(_iter_conversations, config_dir))
    return []


def _read_quietly(read: Callable[[str], Iterator[str]], config_dir: str) -> Iterator[str]:
    """Yield the names that *read* finds for a configuration folder; stop silently at an error.

    Completion has no way to show an error.
    """
    try:
        yield from read(config_dir)
    except (OSError, ValueError, RecursionError, McpHostError):
        return


def _iter_server_names(config_dir: str) -> Iterator[str]:
    from mcphost import paths
    from mcphost.config.json_files import parse_json
    from mcphost.config.loader import LOCAL_FILE, find_local_entries

    folder = paths.config_dir(config_dir)
    for path in (folder / LOCAL_FILE, folder / "mcp.json", Path.cwd() / ".mcp.json"):
        try:
            document = parse_json(_read_text(path), path.name)
        except (OSError, ValueError, RecursionError, McpHostError):
            continue
        if path.name == LOCAL_FILE:
            document = find_local_entries(document, Path.cwd())
        members = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        servers = members.get("mcpServers", members.get("servers"))
        if isinstance(servers, dict):
            yield from cast("dict[str, Any]", servers)


def _iter_profiles(config_dir: str) -> Iterator[str]:
    import tomllib

    from mcphost import paths

    profiles = tomllib.loads(_read_text(paths.config_dir(config_dir) / "config.toml")).get("profiles")
    if isinstance(profiles, dict):
        yield from cast("dict[str, Any]", profiles)


def _iter_models(_config_dir: str) -> Iterator[str]:
    from mcphost import paths
    from mcphost.config.remembered_models import RememberedModels

    for model in RememberedModels(paths.state_dir()).load():
        yield model.config.name
    yield "demo"


def _iter_conversations(_config_dir: str) -> Iterator[str]:
    from mcphost import paths
    from mcphost.store.conversations import read_recent_ids

    yield from read_recent_ids(paths.database_file(), MAX_CONVERSATIONS)


def _read_text(path: Path) -> str:
    from mcphost.config.json_files import read_bytes

    return read_bytes(path, MAX_FILE_BYTES).decode("utf-8", "replace")
