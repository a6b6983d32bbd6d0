"""Command-line parser: the commands, the flags common to all commands, and the resulting options."""

import argparse
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, cast

from mcphost.errors import UsageError
from mcphost.sanitize import sanitize
from mcphost.translation import LANGUAGES, N_, _

COMMANDS: dict[str, tuple[str, str]] = {
    "chat": ("chat", N_("open the terminal UI (the default)")),
    "demo": ("chat", N_("open the terminal UI with the demo model and the demo server: no key, no network")),
    "serve": ("serve", N_("open the terminal UI in a browser on this machine")),
    "run": ("run", N_("run one turn without the UI")),
    "pipe": ("run", N_("control the whole host from a program, over JSON lines")),
    "models": ("models", N_("list the models that can be used now, with abilities and prices")),
    "profiles": ("profiles", N_("list the profiles of config.toml, with their models and servers")),
    "tools": ("list_features", N_("list tools")),
    "resources": ("list_features", N_("list resources")),
    "templates": ("list_features", N_("list resource templates")),
    "prompts": ("list_features", N_("list prompts")),
    "skills": ("list_features", N_("list skills")),
    "call": ("call", N_("call one tool")),
    "read": ("call", N_("read one resource")),
    "prompt": ("call", N_("get one prompt")),
    "skill": ("call", N_("show a skill, or one file of it, checked against what its server listed")),
    "complete": ("call", N_("list suggestions for an argument of a prompt or a resource template")),
    "messages": ("messages", N_("print messages that were saved on the messages page")),
    "servers": ("servers", N_("list, add, install, edit, remove, approve or check servers")),
    "login": ("accounts", N_("sign in to a server")),
    "logout": ("accounts", N_("sign out of a server")),
    "accounts": ("accounts", N_("list all sign-ins, or select the account of a server")),
    "sessions": ("sessions", N_("list, search, show, export, rename, delete or salvage saved conversations")),
    "costs": ("costs", N_("show what model requests cost, by day, model, server and tool")),
    "grants": ("grants", N_("list, search or revoke permissions")),
    "audit": ("audit", N_("list, verify or export the record of what was asked, decided and done")),
    "completion": ("completion", N_("print a script that completes commands and names in bash, zsh or fish")),
    "schema": ("config_schema", N_("print the JSON Schema of mcp.json or config.toml, for editors")),
    "doctor": ("doctor", N_("check configuration, keyring, terminal and servers")),
}
"""The module and the summary of each command, keyed by its name."""

EDIT_ACTIONS: dict[str, tuple[str, str]] = {
    "add": ("edit_servers", N_("add a server: a command line after --, a URL, or JSON from a README")),
    "edit": ("edit_servers", N_("change a server's entry, by flags or in your editor")),
    "remove": ("edit_servers", N_("remove a server from its file")),
    "enable": ("edit_servers", N_("use a disabled server again")),
    "disable": ("edit_servers", N_("keep a server in its file without starting it")),
    "restart": ("edit_servers", N_("restart a server in every running chat")),
    "input": ("server_inputs", N_("set a value that a server's entry asks for (${input:ID})")),
    "import": ("import_servers", N_("add the servers of other hosts on this machine")),
    "export": ("import_servers", N_("print the servers to share them, without secrets")),
    "search": ("search_servers", N_("find servers in a registry")),
    "install": ("install_servers", N_("add a server from a registry, after showing what it would start or reach")),
    "lock": ("lock_servers", N_("pin what a project's servers start and define, in mcphost.lock beside its .mcp.json")),
    "verify": ("lock_servers", N_("compare a project's servers with mcphost.lock")),
    "update": ("update_servers", N_("show newer versions of servers from a registry, and install them")),
}
"""The module and the summary of each action of `servers` that has its own arguments, keyed by its name."""


WORDS_OF_OTHERS: dict[str, str] = {
    "-p": "run PROMPT",
    "--print": "run PROMPT",
    "-r": "--resume",
    "-v": "--version",
    "-V": "--version",
    "add": "servers add",
    "continue": "--continue",
    "help": "--help",
    "history": "sessions",
    "import": "servers import",
    "list": "servers",
    "ls": "servers",
    "mcp": "servers",
    "remove": "servers remove",
    "resume": "--resume",
    "version": "--version",
}
"""Commands and flags of similar programs, and the arguments of mcphost that mean the same."""

CHOICES_OF_OTHERS: dict[str, str] = {
    "delete": "remove", "get": "check", "ls": "list", "rm": "remove", "show": "check", "uninstall": "remove",
    "upgrade": "update",
}  # fmt: skip
"""Actions of similar programs, and the actions of `mcphost servers` that mean the same."""


_VALUE_MARK = "\0"
"""Mark of a word after `--` that begins with a dash; no argument of a program can contain this character."""


class CommandParser(argparse.ArgumentParser):
    """Argument parser that raises UsageError instead of exiting, and translates its `--help` text."""

    summary = ""
    """English summary of the command, from which the description is built when help is shown."""

    title = ""
    """English heading of the list of `names`."""

    names: Mapping[str, str] = {}
    """Summaries of the subcommands or actions to list in the description, keyed by name."""

    prepare: Callable[[list[str]], list[str]] = list
    """Function that changes the command line before it is parsed."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.color = False  # Python 3.14 colors the parts of the help that it writes itself, but not our lists

    def format_help(self) -> str:
        """Return the help text in the user's language."""
        from mcphost.cli.help_text import TranslatedHelp, describe_command

        self.formatter_class = TranslatedHelp
        self.description = describe_command(self.prog, self.summary, self.title, self.names)
        self.epilog = _(self.epilog) if self.epilog else None
        return super().format_help()

    def parse_words(self, words: list[str]) -> Namespace:
        """Parse *words*; flags and values may be mixed, and every word after `--` is a value.

        Before Python 3.13, argparse would mistake words after `--` that begin with a dash for flags. Such words are
        therefore marked during parsing with a character that no argument can contain.
        """
        end = words.index("--") if "--" in words else len(words)
        marked = [_VALUE_MARK + word if word.startswith("-") else word for word in words[end + 1 :]]
        found = self.parse_intermixed_args([*words[: end + 1], *marked])
        for name, value in vars(found).items():
            setattr(found, name, _remove_marks(value))
        return found

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with *message* and a hint to use `--help`."""
        message = message.replace(repr(_VALUE_MARK).strip("'"), "").replace(_VALUE_MARK, "")
        # parse_intermixed_args lists optional arguments as missing, too.
        text = _write_names_in_capitals(message[0].upper() + message[1:]).replace(", KEY=VALUE", "")
        text = _reword_invalid_value(sanitize(f"{text.rstrip('.')}.", keep_newlines=False))
        near = _find_similar_choice(text)
        if near:
            raise UsageError(text, f"Did you mean {near!r}? See: {self.prog} --help")
        raise UsageError(text, f"See: {self.prog} --help")


def _remove_marks(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_remove_marks, cast("list[Any]", value)))
    return value.removeprefix(_VALUE_MARK) if isinstance(value, str) else value


def _reword_invalid_value(message: str) -> str:
    """Return argparse's *message* about an invalid value, changed to say what the value should be.

    The original message names only the function that rejected the value, such as "int" or "dollars".
    """
    argument, invalid, rest = message.partition(": invalid ")
    kind, found, value = rest.partition(" value: ")
    if not invalid or not found or not kind.isalpha():
        return message
    whole = "" if kind in ("seconds", "dollars", "float") else "whole "
    return f"{argument}: {value.rstrip('.')} is not a {whole}number."


def _find_similar_choice(message: str) -> str:
    """Return the choice that the user probably meant, if *message* is about an invalid choice, else ""."""
    _argument, invalid, rest = message.partition(": invalid choice: '")
    typed, found, listed = rest.partition("' (choose from ")
    if not invalid or not found:
        return ""
    from difflib import get_close_matches

    choices = [choice.strip("').") for choice in listed.split(", ")]
    if CHOICES_OF_OTHERS.get(typed) in choices:
        return CHOICES_OF_OTHERS[typed]
    return next(iter(get_close_matches(typed, choices, 1)), "")


def _write_names_in_capitals(message: str) -> str:
    """Write argument names in an argparse error message in capitals, as on the help page.

    Without a metavar, argparse writes them in lower case. Names of options are not changed.
    """
    first, colon, rest = message.partition(": ")
    if first.endswith(" required"):
        shown = (name if name.startswith("-") else name.upper() for name in rest.split(", "))
        return f"{first}{colon}{', '.join(shown)}"
    kind, space, name = first.partition(" ")
    if kind == "Argument" and not name.startswith("-"):
        return f"{kind}{space}{name.upper()}{colon}{rest}"
    return message


def seconds(text: str) -> float:
    """Parse a number of seconds; the maximum is 86400."""
    value = float(text)
    if not 0 < value <= 86_400:
        raise argparse.ArgumentTypeError("not between 0 and 86400 seconds")
    return value


def count(text: str) -> int:
    """Parse a whole number from 1 to 1000."""
    value = int(text)
    if not 0 < value <= 1_000:
        raise argparse.ArgumentTypeError("not between 1 and 1000")
    return value


def dollars(text: str) -> float:
    """Parse an amount of more than 0 and at most 1,000,000 US dollars, such as "0.50" or "$2"."""
    value = float(text.strip().removeprefix("$"))
    if not 0 < value <= 1_000_000:
        raise argparse.ArgumentTypeError("not an amount above 0 US dollars")
    return value


def add_global_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every command accepts to *parser*."""
    group = parser.add_argument_group(N_("flags for every command"), argument_default=argparse.SUPPRESS)
    group.add_argument(
        "--mcp-config",
        action="append",
        metavar="FILE",
        help=(
            "use the servers in this file instead of the user's and the project's, and approve them for this "
            "run; repeatable"
        ),
    )
    group.add_argument("--profile", metavar="NAME", help="use this profile of config.toml")
    group.add_argument("--config-dir", metavar="DIR", help="the folder of mcp.json and config.toml")
    group.add_argument("--era", choices=("auto", "stateless", "handshake"), help="the era of MCP to speak")
    group.add_argument("--api-base", metavar="URL", help="the base URL of the model's API")
    group.add_argument("--api-key-env", metavar="NAME", help="the environment variable with the model's API key")
    group.add_argument("--timeout", type=seconds, metavar="S", help="hard limit for every request, in seconds")
    group.add_argument(
        "--log-level", choices=("debug", "info", "warning", "error"), help="the lowest level that the log file contains"
    )
    group.add_argument(
        "--screen-reader",
        action="store_true",
        help="draw the chat for a screen reader: one column, no animation, a line for each state",
    )
    group.add_argument("--lang", choices=LANGUAGES, help="the language of the chat, and of messages and help")
    group.add_argument("--quiet", action="store_true", help="print only results and errors")


def add_model_flag(parser: argparse.ArgumentParser) -> None:
    """Add the `--model` flag to *parser*."""
    parser.add_argument("--model", metavar="PROVIDER/MODEL", default=argparse.SUPPRESS, help="the model to use")


def add_trust_flag(parser: argparse.ArgumentParser) -> None:
    """Add the `--trust-project` flag to *parser*."""
    parser.add_argument(
        "--trust-project",
        action="store_true",
        help="use the AGENTS.md files and hooks of this folder's project without an approval",
    )


def add_resume_flag(parser: argparse.ArgumentParser) -> None:
    """Add the `--resume` flag to *parser*."""
    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        default=argparse.SUPPRESS,
        help="continue this conversation; without ID, the chat with the newest message",
    )
    add_continue_flag(parser)


def add_continue_flag(parser: argparse.ArgumentParser) -> None:
    """Add the `--continue` flag to *parser*; it means `--resume` without an id."""
    parser.add_argument(
        "-c",
        "--continue",
        dest="resume",
        action="store_const",
        const="",
        default=argparse.SUPPRESS,
        help="continue the chat with the newest message",
    )


def split_command(argv: list[str]) -> tuple[argparse.Namespace, str, list[str]]:
    """Split a command line into the global flags before the command, the command, and the arguments after it.

    Raises UsageError if a flag or the command is invalid.
    """
    from mcphost import __version__

    parser = CommandParser(
        prog="mcphost",
        allow_abbrev=False,
        usage=N_("mcphost [flags] [command] [arguments]"),
        epilog=N_("Help for a command: mcphost COMMAND --help"),
    )
    parser.summary = N_("A terminal host for the Model Context Protocol.")
    parser.title, parser.names = N_("commands:"), {name: summary for name, (_module, summary) in COMMANDS.items()}
    parser.add_argument("--version", action="version", version=f"mcphost {__version__}")
    add_model_flag(parser)
    add_resume_flag(parser)
    add_global_flags(parser)
    # One argument for both: that of a command alone would swallow a `--` that follows it.
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    try:
        flags = vars(parser.parse_args(argv))
    except UsageError as error:
        meant = next(
            (WORDS_OF_OTHERS[word] for word in error.message.rstrip(".").split() if word in WORDS_OF_OTHERS), ""
        )
        if meant and error.message.startswith("Unrecognized"):
            raise UsageError(error.message, f"Did you mean: mcphost {meant}") from error
        raise
    words: list[str] = flags.pop("rest")
    command, *rest = words[words[:1] == ["--"] :] or ["chat"]
    if command not in COMMANDS:
        from difflib import get_close_matches

        meant = WORDS_OF_OTHERS.get(command, "run PROMPT" if " " in command else "")
        meant = meant or next(iter(get_close_matches(command, COMMANDS, 1)), "")
        raise UsageError(
            f"There is no command {sanitize(command, keep_newlines=False)!r}.",
            f"Did you mean: mcphost {meant}" if meant else "See: mcphost --help",
        )
    return argparse.Namespace(**flags), command, rest


def command_parser(command: str, action: str = "") -> CommandParser:
    """Return a parser with the global flags for a command, or for a `servers` action that has its own arguments."""
    from mcphost import __version__

    name, summary = (f"{command} {action}", EDIT_ACTIONS[action][1]) if action else (command, COMMANDS[command][1])
    parser = CommandParser(prog=f"mcphost {name}", allow_abbrev=False)
    parser.summary = summary
    parser.add_argument("--version", action="version", version=f"mcphost {__version__}")
    add_global_flags(parser)
    return parser


def merge_flags(before: argparse.Namespace, after: argparse.Namespace) -> argparse.Namespace:
    """Merge the flags before and after the command; a flag after the command overrides the same flag before it.

    `--mcp-config` is an exception: the files from both places are used.
    """
    merged = argparse.Namespace(**{**vars(before), **vars(after)})
    files = [*getattr(before, "mcp_config", []), *getattr(after, "mcp_config", [])]
    if files:
        merged.mcp_config = files
    return merged


@dataclass(frozen=True, kw_only=True)
class Options:
    """Flags that all commands share, and flags that affect how a Host is built.

    An empty string or None means that the flag was not given; the value is then taken from the environment or, if it is
    not set there, from the configuration.
    """

    mcp_config: tuple[str, ...] = ()
    """Files of `--mcp-config`, in order; they replace the user's and the project's file."""

    config_dir: str = ""
    profile: str | None = None
    model: str = ""
    api_base: str = ""
    api_key_env: str = ""
    era: Literal["", "auto", "stateless", "handshake"] = ""
    """Protocol revisions to speak: up to 2025-11-25 (handshake) or later; empty keeps each server's own setting."""

    timeout: float | None = None
    """`--timeout`: hard limit of every request in seconds, even if the request reports progress."""

    log_level: str = "info"
    quiet: bool = False
    lang: str = ""
    """`--lang`: the language of the chat; empty for that of config.toml or the locale."""

    screen_reader: bool = False
    """Whether the chat is drawn for a screen reader, whatever `[screen] reader` says."""

    resume: str | None = None
    """`--resume`: a conversation's id prefix; empty for the most recent chat, None for a new one."""

    allow: tuple[str, ...] = ()
    """`--allow` rules as typed."""

    pass_results: tuple[str, ...] = ()
    """`--pass-results` rules as typed."""

    yes: bool = False
    trust_project: bool = False
    """Whether the folder's AGENTS.md, commands and hooks may be used without a stored approval."""

    max_rounds: int | None = None
    max_cost: float | None = None
    """`--max-cost`: budget of the turn in US dollars."""

    demo: bool = False
    """Whether this is `mcphost demo`, with temporary folders and a built-in configuration."""

    is_diagnosis: bool = False
    """Whether defaults are used if config.toml is invalid: `mcphost doctor` calls no tool and no model."""

    one_shot: bool = False
    """Whether an invalid `--mcp-config` file is an error (in commands that do a single thing) or only a notice."""


_COMMON_FLAGS = (
    "config_dir",
    "profile",
    "model",
    "api_base",
    "api_key_env",
    "era",
    "timeout",
    "quiet",
    "lang",
    "screen_reader",
    "resume",
    "yes",
    "trust_project",
    "max_rounds",
    "max_cost",
)


def build_options(args: Namespace, *, one_shot: bool = True, demo: bool = False, is_diagnosis: bool = False) -> Options:
    """Build options from parsed flags; flags that were not given keep their defaults.

    - *one_shot*: whether an invalid `--mcp-config` file is an error instead of a notice.
    - *demo*: whether this is `mcphost demo`.
    - *is_diagnosis*: whether an unreadable config.toml is reported as a problem instead of an error.
    """
    flags = {name: getattr(args, name) for name in _COMMON_FLAGS if hasattr(args, name)}
    return Options(
        **flags,
        mcp_config=tuple(getattr(args, "mcp_config", ())),
        allow=tuple(getattr(args, "allow", None) or ()),
        pass_results=tuple(getattr(args, "pass_results", None) or ()),
        log_level=getattr(args, "log_level", "info"),
        one_shot=one_shot,
        demo=demo,
        is_diagnosis=is_diagnosis,
    )
