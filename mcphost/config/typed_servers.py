"""Parser for servers that users type, as a command line, a URL or JSON.

Users type them on the command line of mcphost, in the chat, or in an editor.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcphost.config.code_blocks import PastedText, find_code_block, is_data
from mcphost.config.entry_keys import MAX_COMMAND_LINE, OWN_KEYS, describe_entry_keys, describe_unknown_keys
from mcphost.config.json_files import parse_json
from mcphost.config.pasted_servers import MAX_PASTED_CHARACTERS, parse_pasted_servers
from mcphost.config.typed_pairs import (
    PAIR_FORMS,
    PairSeparator,
    is_pair_name,
    pair_key,
    parse_pair_lines,
    split_pair_line,
)
from mcphost.errors import ConfigError, McpHostError, UsageError
from mcphost.paths import find_program
from mcphost.serialization import Struct
from mcphost.unicode_forms import is_loopback_host, split_url

_LAUNCHERS = ("npx", "uvx", "uv", "bunx", "pipx", "docker", "podman", "python", "node", "deno", "dnx")
"""Programs whose first argument identifies the server better than the program's name."""
_ADD_COMMANDS = frozenset(
    {("mcphost", "servers", "add"), *((host, "mcp", "add") for host in ("claude", "codex", "gemini", "amp"))}
)
_CLAUDE_ADD = ("claude", "mcp", "add")
_CLAUDE_OPTIONS = {"-t": "--transport", "-e": "--env", "-H": "--header", "-s": "--scope"}
_CLAUDE_VALUES = {"--transport": ("stdio", "http", "sse"), "--scope": ("local", "user", "project")}
_CLAUDE_PAIRS: dict[str, PairSeparator] = {"--env": "=", "--header": ":"}
_ADD_JSON = ("claude", "mcp", "add-json")
_CODE_ADD = ("code", "--add-mcp")
_URL_STARTS = ("http://", "https://")
_HOST_AND_PATH = re.compile(
    r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::[0-9]{1,5}(?:/|$)|/)|(?:localhost|\[[0-9a-fA-F:]{2,39}\])(?::[0-9]{1,5}|/)"
)
"""Matches the beginning of a URL whose scheme is missing, such as `example.com/mcp` or `localhost:8000`."""
_SHELL_WORDS = frozenset({"|", "|&", ">", ">>", "<", "<<", "&&", "||", ";", "&", "&>", "2>", "2>&1"})
_SUBSTITUTIONS = ("$(", "`")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "pwsh", "powershell", "cmd"})
_MAX_MISTAKES = 5
_MAX_WORDS = 1_000


class TypedSettings(Struct, frozen=True, kw_only=True):
    """Settings that the user typed in addition to a server's command or URL; `cwd` is None if no folder was given."""

    env: dict[str, str] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    headers: dict[str, str] = {}  # noqa: RUF012
    cwd: str | None = None

    def apply(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of an mcp.json entry with these settings.

        A header replaces an existing one whose name differs only in case.

        Raises UsageError if a setting cannot be used in the entry: only an entry with a URL can have headers, and only
        an entry without a URL can have environment variables and a folder.
        """
        if self.headers and "url" not in entry:
            raise UsageError("Headers can only be set for a server with a URL.")
        if self.env and "url" in entry:
            raise UsageError("Environment variables can only be set for a server with a command.")
        if self.cwd is not None and "url" in entry:
            raise UsageError("A folder can only be set for a server with a command.")
        changed = dict(entry)
        pairs: tuple[tuple[str, PairSeparator, dict[str, str]], ...]
        pairs = ("env", "=", self.env), ("headers", ":", self.headers)
        for key, separator, values in pairs:
            if values:
                given = {pair_key(name, separator) for name in values}
                before = cast("Mapping[str, Any]", changed.get(key, {}))
                kept = {
                    name: value
                    for name, value in before.items()
                    if name in values or pair_key(name, separator) not in given
                }
                changed[key] = {**kept, **values}
        return changed if self.cwd is None else {**changed, "cwd": self.cwd}


def read_settings(env: str, headers: str, folder: str) -> TypedSettings:
    """Parse the settings that the user typed for a server.

    *env* consists of `NAME=VALUE` lines and *headers* of `NAME: VALUE` lines; *folder* may be "". Raises UsageError
    if `parse_pair_lines` rejects a line, or if the folder does not exist.
    """
    cwd = resolve_folder(folder.strip()) if folder.strip() else None
    if cwd is not None and not os.path.isdir(cwd):
        raise UsageError(f"The folder {cwd} does not exist.", "Create it, or choose another.")
    return TypedSettings(
        env=parse_pair_lines(env, "="),
        headers=parse_pair_lines(headers, ":"),
        cwd=cwd,
    )


def resolve_folder(text: str) -> str:
    """Return the absolute path of a folder that the user typed; `~` and symbolic links are resolved."""
    return os.path.realpath(os.path.expanduser(text))


def parse_server_text(text: str, name: str = "", cwd: str | None = None) -> dict[str, dict[str, Any]]:
    """Parse text that a user typed or pasted; return the configuration entries, keyed by server name.

    *text* is a command line, a URL, or JSON as shown in READMEs. Two other forms are accepted: `NAME --
    COMMAND`, which mcphost and other hosts accept on their command lines, and a complete command that adds a
    server to another host. Without *name*, the name is taken from the text or derived from the host or the
    program. See `make_entry` for *cwd*.

    Raises ConfigError if JSON is invalid or the text has several code blocks, and UsageError if the text is empty or an
    invalid command line.
    """
    (text, has_data), name = _find_typed(text), name.strip()
    if not text:
        raise UsageError("Type a command, a URL or JSON first.", "For example: uvx mcp-server-time")
    if has_data:
        entries = parse_pasted_servers(text, name)
        return {name: next(iter(entries.values()))} if name and len(entries) == 1 else entries
    if text.startswith(_URL_STARTS):
        return {name or _name_of_url(text): {"url": text}}
    words = _split_command_line(text)
    if (pasted := _find_json(words)) is not None:
        own_name, document = pasted
        return parse_pasted_servers(document, name or own_name)
    if tuple(words[:3]) == _CLAUDE_ADD:
        own_name, entry = _parse_claude_add(words[3:], cwd)
        return {name or own_name: entry}
    own_name, words = _split_name(words)
    name = name or own_name
    entry = make_entry(words, cwd)
    return {name or (_name_of_url(entry["url"]) if "url" in entry else _name_of_command(words)): entry}


def _split_command_line(text: str) -> list[str]:
    if len(text) > MAX_COMMAND_LINE:
        raise UsageError(f"The command line is over {MAX_COMMAND_LINE:,} characters.", "Is it the right text?")
    try:
        return shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise UsageError(f"The command line is not complete: {error}.", "Close the quotes.") from error


def find_pasted_scope(text: str) -> str:
    """Return the value of `--scope` in a pasted `claude mcp add`: "user", "project" or "local", or "" if none."""
    try:
        words = _split_command_line(_find_typed(text).text)
        options = _split_claude_options(words[3:])[0] if tuple(words[:3]) == _CLAUDE_ADD else []
    except (ConfigError, UsageError):
        return ""
    scopes = [value for option, value in options if option == "--scope"]
    return scopes[-1] if scopes and scopes[-1] in _CLAUDE_VALUES["--scope"] else ""


def is_command_line(text: str) -> bool:
    """Return whether `parse_server_text` parses *text* as a command line, not as JSON or a URL."""
    try:
        found = _find_typed(text)
    except ConfigError:
        return False
    return not (found.is_data or found.text.startswith(_URL_STARTS))


def _find_typed(text: str) -> PastedText:
    """Return the command line, URL or JSON in a text, without a shell prompt (`$ `) or Markdown code fences around it.

    Raises ConfigError if several code blocks in the text could describe the server.
    """
    if len(text) > MAX_PASTED_CHARACTERS:
        return PastedText(text.strip(), is_data(text.strip()))
    found = find_code_block(text)
    return found._replace(text=found.text.removeprefix("$ ").strip())


def make_entry(target: list[str], cwd: str | None = None) -> dict[str, Any]:
    """Create an mcp.json entry from a URL, or from a program and its arguments.

    *cwd* is the program's working directory, None if the user did not give one. It is used only to check whether
    *target* is an existing file. Raises UsageError if *target* is probably a URL without its scheme.
    """
    if len(target) == 1 and "://" in target[0]:
        return {"url": target[0]}
    if len(target) == 1 and _HOST_AND_PATH.match(target[0]):
        is_file = any(os.path.exists(os.path.join(folder, target[0])) for folder in (os.getcwd(), cwd or ""))
        if not is_file and find_program(target[0]) is None:
            url = f"{_guess_scheme(target[0])}{target[0]}"
            raise UsageError(f"There is no program {target[0]!r}.", f"Did you mean {url}?")
    return {"command": target[0], "args": target[1:]} if len(target) > 1 else {"command": target[0]}


def _guess_scheme(address: str) -> str:
    """Return "http://" for a loopback address, whose server rarely has a certificate, else "https://"."""
    try:
        is_loopback = is_loopback_host(split_url(f"http://{address}").hostname or "")
    except ValueError:
        is_loopback = False
    return "http://" if is_loopback else "https://"


def _find_json(words: list[str]) -> tuple[str, str] | None:
    """Return the name ("" if none) and the JSON in a command that adds a server to Claude Code or VS Code.

    *words* is the command line. Returns None for any other command. Raises UsageError if the command has
    options.
    """
    if tuple(words[:3]) == _ADD_JSON:
        command, rest = words[:3], words[3:]
        if len(rest) == 2 and not rest[0].startswith("-"):
            return rest[0], rest[1]
    elif tuple(words[:2]) == _CODE_ADD:
        command, rest = words[:2], words[2:]
        if len(rest) == 1:
            return "", rest[0]
    else:
        return None
    raise _unread_options(command)


def _parse_claude_add(words: list[str], cwd: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name and the entry of `claude mcp add`. `--scope` is only checked; see `find_pasted_scope`.

    Raises UsageError for an option that cannot be part of an entry.
    """
    options, plain = _split_claude_options(words)
    name, *target = plain or [""]
    if not name or not target or target[0].startswith("-"):
        raise _unread_options([*_CLAUDE_ADD])
    pairs: dict[PairSeparator, dict[str, str]] = {"=": {}, ":": {}}
    transport = ""
    for option, value in options:
        if option in _CLAUDE_VALUES and value not in _CLAUDE_VALUES[option]:
            raise UsageError(f"{option} is not one of {', '.join(_CLAUDE_VALUES[option])}.", "Correct it.")
        if option == "--transport":
            transport = value
        elif option in _CLAUDE_PAIRS:
            separator = _CLAUDE_PAIRS[option]
            _add_pair(pairs[separator], option, value, separator)
    entry = make_entry(target, cwd)
    if transport and ("url" in entry) == (transport == "stdio"):
        raise UsageError(
            f"--transport {transport} does not suit the rest of the command.",
            "Write a URL after the name for http and sse, and a program for stdio.",
        )
    entry = {"type": "sse", **entry} if transport == "sse" else entry
    return name, TypedSettings(env=pairs["="], headers=pairs[":"]).apply(entry)


def _split_claude_options(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the options of `claude mcp add` with their values, and the other words.

    Options may come before or after the name and the URL. After "--", and after a program that follows the
    name, all words belong to the program. As in Claude Code, one `--env` may be followed by several variables.
    """
    options: list[tuple[str, str]] = []
    plain: list[str] = []
    at = 0
    while at < len(words) and (len(plain) < 2 or "://" in plain[1]):
        word, at = words[at], at + 1
        if word == "--":
            break
        if not word.startswith("-"):
            plain.append(word)
            continue
        option, has_value, value = word.partition("=")
        option = _CLAUDE_OPTIONS.get(option, option)
        if option not in _CLAUDE_OPTIONS.values():
            raise _unread_options([*_CLAUDE_ADD])
        if not has_value:
            value, at = words[at] if at < len(words) else "", at + 1
        options.append((option, value))
        while option == "--env" and at < len(words) and "=" in words[at] and not words[at].startswith("-"):
            options.append((option, words[at]))
            at += 1
    return options, [*plain, *words[at:]]


def _add_pair(pairs: dict[str, str], option: str, text: str, separator: PairSeparator) -> None:
    """Add `NAME=VALUE` or `NAME: VALUE` to *pairs*.

    Raises UsageError if *text* has no name or no value. The error names *option*, but does not quote *text*,
    which may contain a secret.
    """
    name, found, value = split_pair_line(text, separator)
    value = value.strip() if separator == ":" else value
    if not found or not is_pair_name(name, separator) or (separator == ":" and not value):
        raise UsageError(f"The value of {option} has no name or no value.", PAIR_FORMS[separator])
    pairs[name] = value


def _unread_options(command: list[str]) -> UsageError:
    return UsageError(
        f"Options of {' '.join(command)!r} are not read here.", "Type NAME -- COMMAND, or a command or a URL."
    )


def _split_name(words: list[str]) -> tuple[str, list[str]]:
    """Split `NAME -- COMMAND` into the name ("" if none) and the command, which may be a URL.

    After a prefix such as "mcphost servers add", "--" is optional. Without a prefix, a first word that is the
    name of an installed program is not treated as NAME, because "--" may be an argument of that program. Raises
    UsageError if there are options after the prefix.
    """
    if tuple(words[:3]) in _ADD_COMMANDS:
        name, *command = words[3:] or [""]
        command = command[1:] if command[:1] == ["--"] else command
        if not command or name.startswith("-") or command[0].startswith("-"):
            raise _unread_options(words[:3])
        return name, command
    is_named = len(words) > 2 and words[1] == "--" and not words[2].startswith("-") and find_program(words[0]) is None
    return (words[0], words[2:]) if is_named else ("", words)


def parse_entry(text: str, name: str) -> dict[str, Any]:
    """Parse *text* as the entry of the server *name*. Raises ConfigError if it is not a JSON object."""
    entry = parse_json(text, f"the entry of {name}")
    if not isinstance(entry, dict):
        raise ConfigError(f"The entry of {name} is not an object.", "Write it in braces.")
    return dict(cast("dict[str, Any]", entry))


def _name_of_url(url: str) -> str:
    try:
        host = split_url(url).hostname or ""
    except ValueError as error:
        raise UsageError(f"The URL is not valid: {error}.", "Write it in full.") from error
    parts = [part for part in host.split(".") if part not in ("www", "mcp", "api")]
    return parts[0] if parts else host


def _name_of_command(words: list[str]) -> str:
    """Derive a short name from a command: `npx @scope/server-files` and `python files.py` become `files`."""
    plain = [word for word in words if not word.startswith("-")]
    program = plain[0].rpartition("/")[2] if plain else words[0]
    if program.startswith(_LAUNCHERS):
        plain = [word for word in plain[1:] if word not in ("run", "exec", "x")] or plain
    word = plain[0] if plain else program
    base = word.rstrip("/").rpartition("/")[2].partition("@")[0] or word
    for prefix in ("mcp-server-", "server-", "mcp-"):
        base = base.removeprefix(prefix)
    for suffix in (".py", ".js", ".mjs", ".ts"):
        base = base.removesuffix(suffix) or base
    return "".join(char if char.isalnum() or char in "-_." else "-" for char in base)[:60] or "server"


def find_new_server_mistakes(text: str, name: str = "") -> tuple[str, ...]:
    """Return a sentence for each probable mistake in text that `parse_server_text` accepts.

    Returns () if `parse_server_text` does not accept the text.
    """
    try:
        entries = parse_server_text(text, name)
    except McpHostError:
        return ()
    mistakes: list[str] = []
    for entry in entries.values():
        mistakes += _describe_keys(entry)
        if is_command_line(text):
            mistakes += _describe_shell_syntax([str(entry.get("command", "")), *entry.get("args", ())])
    return tuple(mistakes[:_MAX_MISTAKES])


def find_entry_mistakes(text: str, name: str) -> tuple[str, ...]:
    """Return a sentence for each probable mistake in text that `parse_entry` accepts.

    Returns () if `parse_entry` does not accept the text.
    """
    try:
        return tuple(_describe_keys(parse_entry(text, name)))[:_MAX_MISTAKES]
    except McpHostError:
        return ()


def _describe_keys(entry: Mapping[str, Any]) -> Iterator[str]:
    yield from describe_entry_keys(entry)
    own = entry.get("mcphost")
    if isinstance(own, dict):
        yield from describe_unknown_keys(cast("dict[str, Any]", own), OWN_KEYS)


def _describe_shell_syntax(words: list[str]) -> Iterator[str]:
    """Yield a sentence about the first shell syntax in a command line, such as a pipe.

    The sentence quotes only the operator, because a word may contain a secret.
    """
    words = words[:_MAX_WORDS]
    sign = next((word for word in words if word in _SHELL_WORDS), "")
    if not sign and not any(word.rpartition("/")[2] in _SHELLS for word in words):
        sign = next((one for one in _SUBSTITUTIONS if any(one in word for word in words)), "")
    if sign:
        yield f"The command runs without a shell, so the program gets {sign} as part of its arguments."
