"""Conversion of server entries from the formats of other MCP hosts to the format of `mcp.json`."""

import os
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, cast

from mcphost.config.entry_keys import MAX_COMMAND_LINE, is_whole_command_line
from mcphost.config.other_host_sign_in import read_sign_in
from mcphost.config.server_inputs import entry_texts
from mcphost.config.variable_references import expand_home, find_references, has_nested_reference
from mcphost.redact import is_probable_secret
from mcphost.sanitize import quote_text, sanitize_line
from mcphost.serialization import Struct

MAX_ENTRY_VALUES = 500
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_DEFAULT = "[^}${]{0,1000}"


class UnusableEntry(Exception):
    """Raised when an entry cannot be imported; the message is a sentence that gives the reason."""


class VariableSyntax(NamedTuple):
    """Syntax of references to environment variables in the configuration files of another MCP host."""

    pattern: re.Pattern[str]
    """Matches a reference. Group `name` is the variable; the optional group `default` is its default value."""

    has_places: bool = False
    """Whether the host also expands folder names such as `${userHome}`, like mcphost."""

    is_complete: bool = True
    """Whether the host passes all other references on, so that mcphost must not expand them either."""


SHELL = VariableSyntax(re.compile(rf"\$\{{(?P<name>{_NAME})(?::-(?P<default>{_DEFAULT}))?\}}"))
"""`${NAME}` and `${NAME:-default}`: Claude Code, oterm."""

BARE_SHELL = VariableSyntax(
    re.compile(rf"\$(?P<brace>\{{)?(?P<name>{_NAME})(?(brace)(?::-(?P<default>{_DEFAULT}))?\}}|(?!\w))")
)
"""`$NAME`, `${NAME}` and `${NAME:-default}`: Gemini CLI."""

PREFIXED = VariableSyntax(re.compile(rf"\$\{{env:(?P<name>{_NAME})\}}"), has_places=True)
"""`${env:NAME}`: VS Code, Cursor, Windsurf."""

ONLY_ENV = PREFIXED._replace(has_places=False)
"""`${env:NAME}` and no names of folders: Cline."""

BRACED = VariableSyntax(re.compile(rf"\{{env:(?P<name>{_NAME})\}}"))
"""`{env:NAME}`: opencode."""

NONE = VariableSyntax(re.compile(r"(?!)"))
"""No references: Claude Desktop, Zed, goose, Codex."""

OWN = NONE._replace(is_complete=False)
"""mcphost's own references, which are kept; for pasted text, which may have been written for any host."""

_UNSUPPORTED_SCHEMES = ("ws", "wss", "unix", "pipe")
_FILE_REFERENCE = re.compile(r"(?<!\$)\{file:[^}]{0,200}\}")
_MAX_NAMED_REFERENCES = 20
_WINDOWS_PATH = re.compile(r"\\[\w.]")
"""A part of a path such as `C:\\Tools`; a shell needs a backslash only before a space, a quote or the like."""
_OWN_REFERENCE = re.compile(rf"\$(\{{({_NAME})\}})")
_EXPANDED_KINDS = frozenset({"variable", "keyring", "dollar"})
"""Kinds of references that mcphost expands; it also expands places, as some hosts do, and asks for inputs."""

_MAX_CALL_SECONDS = 86_400
_DEFAULT_CALL_SECONDS = 60
_MAX_NUMBER_BITS = 1_000
"""Limit because TOML and YAML allow hexadecimal numbers of a length that Python cannot convert to decimal."""


class ForeignServer(Struct, frozen=True, kw_only=True):
    """A server found in another host's configuration file.

    `entry` is in the format of `mcp.json`; if the conversion failed, `entry` is empty and `problem` is the reason.
    `notes` are sentences for the user, for example about settings that mcphost does not support.
    """

    name: str
    host: str
    """Title of the host, for example "Claude Desktop"."""

    file: str
    entry: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    problem: str = ""
    notes: tuple[str, ...] = ()
    is_disabled: bool = False
    is_own: bool = False
    """Whether the file belongs to the user, not to a project, which others may have written."""


Convert = Callable[[Mapping[str, Any], VariableSyntax], dict[str, Any]]


def convert_common(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert a server entry of another host, in the format that most hosts use, to an entry of mcp.json.

    The keys `command`, `args`, `env`, `cwd`, `url`, `headers` and `type` are read. `envFile` with an absolute
    path (VS Code, Cursor), `serverUrl` and `disabledTools` (Windsurf) and `httpUrl` (Gemini CLI) are also
    recognized. *syntax* is the host's syntax for references to environment variables. Raises UnusableEntry.
    """
    return _with_disabled_tools(_convert_target(entry, syntax), _texts(entry, "disabledTools"))


def _convert_target(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    http_url = _text(entry, "httpUrl") or _text(entry, "serverUrl")
    url = http_url or _text(entry, "url")
    if command := _text(entry, "command"):
        converted = _stdio(command, _texts(entry, "args"), _pairs(entry, "env"), _text(entry, "cwd"), syntax)
        env_file = _text(entry, "envFile")
        # Each host resolves relative paths against a different folder.
        if env_file.startswith(("/", "~", "$")):
            converted["envFile"] = _convert_references(env_file, syntax)
        return converted
    if not url:
        raise UnusableEntry("It has neither a command nor a URL.")
    transport = _text(entry, "type") or _text(entry, "transport") or _text(entry, "transportType")
    return _remote(url, _pairs(entry, "headers"), "sse" if transport == "sse" else "", syntax)


def convert_claude_code(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert a Claude Code entry, which may have a `timeout` in milliseconds.

    *syntax* is the host's syntax for references to environment variables.
    """
    return _with_timeout(convert_common(entry, syntax), entry.get("timeout"), 0.001)


def convert_cline(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert a Cline entry, which may have a `timeout` in seconds.

    *syntax* is the host's syntax for references to environment variables.
    """
    return _with_timeout(convert_common(entry, syntax), entry.get("timeout"))


def convert_gemini(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert a Gemini CLI entry, in which `url` means HTTP+SSE and `httpUrl` means Streamable HTTP.

    *syntax* is the host's syntax for references to environment variables.
    """
    converted = convert_common(entry, syntax)
    if "url" in converted and not _text(entry, "httpUrl") and _text(entry, "type") != "http":
        converted["type"] = "sse"
    return _with_timeout(_with_disabled_tools(converted, _texts(entry, "excludeTools")), entry.get("timeout"), 0.001)


def convert_codex(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert a `[mcp_servers.NAME]` table of Codex.

    *syntax* is the host's syntax for references to environment variables.
    """
    if command := _text(entry, "command"):
        converted = _stdio(command, _texts(entry, "args"), _pairs(entry, "env"), _text(entry, "cwd"), syntax)
        passed_on = {name: f"${{env:{name}}}" for name in _passed_variables(entry)}
        converted |= {"env": {**converted.get("env", {}), **passed_on}} if passed_on else {}
    else:
        headers = {name: f"${{env:{variable}}}" for name, variable in _pairs(entry, "env_http_headers").items()}
        if variable := _text(entry, "bearer_token_env_var"):
            headers["Authorization"] = f"Bearer ${{env:{variable}}}"
        url = _text(entry, "url")
        if not url:
            raise UnusableEntry("It has neither a command nor a URL.")
        converted = _remote(url, _pairs(entry, "http_headers"), "", syntax)
        converted |= {"headers": {**converted.get("headers", {}), **headers}} if headers else {}
    return _with_timeout(
        _with_disabled_tools(converted, _texts(entry, "disabled_tools")), entry.get("tool_timeout_sec")
    )


def _passed_variables(entry: Mapping[str, Any]) -> list[str]:
    """Return the names of the environment variables in `env_vars`, which Codex passes on to a server.

    Each item of `env_vars` is a name, or a table with the key `name`.
    """
    items: Any = entry.get("env_vars")
    if isinstance(items, list):
        listed = cast("list[Any]", items)
        items = [cast("dict[str, Any]", item).get("name") if isinstance(item, dict) else item for item in listed]
    return _texts({"env_vars": items}, "env_vars")


def _with_disabled_tools(entry: dict[str, Any], tools: list[str]) -> dict[str, Any]:
    return {**entry, "disabledTools": tools} if tools else entry


def _with_timeout(entry: dict[str, Any], timeout: object, unit: float = 1) -> dict[str, Any]:
    """Return a converted entry with the other host's time limit for calls, if it is longer than mcphost's default.

    *timeout* is in units of *unit* seconds. A shorter limit is ignored, because many hosts write one by default.
    """
    if not isinstance(timeout, int | float) or isinstance(timeout, bool):
        return entry
    if not _DEFAULT_CALL_SECONDS / unit < timeout <= _MAX_CALL_SECONDS / unit:
        return entry
    seconds = timeout * unit
    return {**entry, "mcphost": {"timeout": int(seconds) if seconds == int(seconds) else seconds}}


def convert_zed(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert an entry in Zed's `context_servers`, in which `command` may be an object.

    *syntax* is the host's syntax for references to environment variables.
    """
    if entry.get("source") == "extension" or ("settings" in entry and "command" not in entry and "url" not in entry):
        raise UnusableEntry("It belongs to a Zed extension, which brings its own program.")
    command = entry.get("command")
    if isinstance(command, dict):
        members = cast("dict[str, Any]", command)
        return _stdio(_text(members, "path"), _texts(members, "args"), _pairs(members, "env"), "", syntax)
    return convert_common(entry, syntax)


def convert_goose(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert an entry in goose's `extensions`.

    *syntax* is the host's syntax for references to environment variables. Raises UnusableEntry for an extension
    that is built into goose.
    """
    kind = _text(entry, "type")
    stored = {name: f"${{env:{name}}}" for name in _texts(entry, "env_keys")}
    values = {**stored, **{name: _escape_references(text, syntax) for name, text in _pairs(entry, "envs").items()}}
    if kind == "stdio":
        converted = _stdio(_text(entry, "cmd"), _texts(entry, "args"), {}, "", syntax)
        converted |= {"env": values} if values else {}
        return _with_timeout(converted, entry.get("timeout"))
    if kind in ("sse", "streamable_http"):
        converted = _remote(_text(entry, "uri"), {}, "sse" if kind == "sse" else "", syntax)
        headers = {name: _fill_in(name, text, values, syntax) for name, text in _pairs(entry, "headers").items()}
        converted |= {"headers": headers} if headers else {}
        return _with_timeout(converted, entry.get("timeout"))
    raise UnusableEntry(f"It is built into goose (type {quote_text(kind, 40)}).")


def _fill_in(header: str, text: str, values: Mapping[str, str], syntax: VariableSyntax) -> str:
    """Return the value of a goose header in which the entry's own variables (`$NAME` or `${NAME}`) are replaced.

    *header* is the header's name, *text* its value, and *values* maps the names of the variables to their values in
    the format of mcp.json. References to other variables are kept as text, because goose does not expand them.

    If a variable contains a secret, but the header's name does not suggest one, the reference `${env:NAME}` is inserted
    instead of the secret. Otherwise, the secret would not be recognized, and not be moved to the keyring later.
    """
    parts: list[str] = []
    end = 0
    for match in BARE_SHELL.pattern.finditer(text):
        name = match["name"]
        if name not in values or match["default"] is not None:
            continue
        value = values[name]
        is_lost = is_probable_secret(name, value) and not is_probable_secret(header, value)
        parts += (_escape_references(text[end : match.start()], syntax), f"${{env:{name}}}" if is_lost else value)
        end = match.end()
    return "".join((*parts, _escape_references(text[end:], syntax)))


def convert_opencode(entry: Mapping[str, Any], syntax: VariableSyntax) -> dict[str, Any]:
    """Convert an entry in opencode's `mcp`, in which `command` is a list.

    *syntax* is the host's syntax for references to environment variables.
    """
    if _text(entry, "type") == "remote" or "url" in entry:
        return _remote(_text(entry, "url"), _pairs(entry, "headers"), "", syntax)
    command = _texts(entry, "command")
    if not command:
        raise UnusableEntry("It has neither a command nor a URL.")
    return _stdio(command[0], command[1:], _pairs(entry, "environment"), _text(entry, "cwd"), syntax)


def contains_servers(members: Mapping[str, Any]) -> bool:
    """Return whether *members* may map server names to entries.

    Returns False if *members* contain a command or a URL, because they are then the entry of a single server.
    """
    return not isinstance(members.get("command"), str | list) and not isinstance(members.get("url"), str)


def set_folder(entry: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return a converted entry with *folder*, the folder of its project, as the working directory.

    A relative working directory in the entry is resolved against *folder*. The entry is returned unchanged if
    *folder* is "", if the entry has no command, or if its working directory is absolute or begins with a
    reference. Raises UnusableEntry if *folder* contains `${`: mcphost would treat this as the beginning of a
    reference.
    """
    if not folder or "command" not in entry:
        return entry
    cwd: str = entry.get("cwd", "")
    if cwd.startswith(("/", "~", "${")):
        return entry
    if "${" in folder:
        raise UnusableEntry(
            "The path of its project has a dollar sign and a brace in it, which mcphost reads as a reference."
        )
    return {**entry, "cwd": os.path.normpath(os.path.join(folder, cwd))}


def is_entry_disabled(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry of another host is turned off there, by `"disabled": true` or `"enabled": false`."""
    return entry.get("disabled") is True or entry.get("enabled") is False


def allowed_tools(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tools to which the other host restricts a server, or () if there is no restriction.

    mcphost has no equivalent setting. The tools are listed in `enabled_tools` (Codex), `includeTools` (Gemini CLI)
    or `available_tools` (goose).
    """
    lists = (entry.get(key) for key in ("enabled_tools", "includeTools", "available_tools"))
    none: list[Any] = []
    names = next((cast("list[Any]", found) for found in lists if isinstance(found, list) and found), none)
    return _shown([name for name in names[:_MAX_NAMED_REFERENCES] if isinstance(name, str)])


def unsupported_references(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the references in a converted entry that mcphost cannot expand.

    These are unknown kinds of references, such as `${command:NAME}`, and inputs that the entry does not define.
    """
    own = cast("dict[str, Any]", entry.get("mcphost", {}))
    defined = {definition["id"] for definition in own.get("inputs", ())}
    texts = entry_texts(entry)
    found = [
        reference.text
        for text in texts
        for reference in find_references(text)
        if reference.kind == "unknown" or (reference.kind == "input" and reference.name not in defined)
    ]
    found += [match.group() for text in texts for match in _FILE_REFERENCE.finditer(text)]
    return _shown(found)


def _shown(references: list[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(references))[:_MAX_NAMED_REFERENCES]
    return tuple(sanitize_line(reference, 200) for reference in distinct)


def _stdio(command: str, args: list[str], env: dict[str, str], cwd: str, syntax: VariableSyntax) -> dict[str, Any]:
    if not command:
        raise UnusableEntry("It has no command.")
    if not args:
        command, *args = _split_command_line(command)
    converted: dict[str, Any] = {"command": _convert_references(command, syntax)}
    if args:
        own = _own_variables(env)
        converted["args"] = [_convert_references(argument, syntax, own) for argument in args]
    if env:
        converted["env"] = {name: _convert_references(value, syntax) for name, value in env.items()}
    if cwd:
        converted["cwd"] = _convert_references(cwd, syntax)
    return converted


def _own_variables(env: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the variables that *env* sets, except those set to the user's variable of the same name."""
    return frozenset(name for name, value in env.items() if value not in (f"${{{name}}}", f"${{env:{name}}}"))


def escape_own_variables(entry: dict[str, Any]) -> dict[str, Any]:
    """Escape references in an entry's arguments to variables that the entry itself sets in "env".

    mcphost then passes these references on unchanged, because published examples, such as those of mcp-remote, rely
    on the program to expand them. The entry is in the format of mcp.json. Returns a changed copy, or the entry
    itself if there is nothing to escape, or if its arguments or variables are invalid.
    """
    try:
        args, own = _texts(entry, "args"), _own_variables(_pairs(entry, "env"))
    except UnusableEntry:
        return entry
    escaped = [_OWN_REFERENCE.sub(lambda one: f"${{$}}{one[1]}" if one[2] in own else one[0], text) for text in args]
    return {**entry, "args": escaped} if escaped != args else entry


def _split_command_line(command: str) -> list[str]:
    """Return the program and the arguments of a "command" that contains both, as Cursor allows.

    The result is only *command* if it may be the path of a program with spaces, if its quotes are not closed, or if it
    is too long. The backslashes of a path on Windows are kept.
    """
    if len(command) > MAX_COMMAND_LINE or not is_whole_command_line(command.replace("${", "$"), has_arguments=False):
        return [command]
    parser = shlex.shlex(command, posix=True, punctuation_chars=False)
    parser.whitespace_split, parser.commenters = True, ""
    if _WINDOWS_PATH.search(command):
        parser.escape = ""
    try:
        words = [*parser]
    except ValueError:
        return [command]
    is_path = "\\" in words[0] or ("/" in words[0] and not os.path.exists(expand_home(words[0])))
    return [command] if is_path else words


def _remote(url: str, headers: dict[str, str], transport: str, syntax: VariableSyntax) -> dict[str, Any]:
    if not url:
        raise UnusableEntry("It has no URL.")
    scheme = url.partition("://")[0].lower()
    if scheme in _UNSUPPORTED_SCHEMES:
        raise UnusableEntry(f"Its address begins with {scheme}:, and mcphost connects over http and https only.")
    converted: dict[str, Any] = {"url": _convert_references(url, syntax)}
    if transport:
        converted["type"] = transport
    if headers:
        converted["headers"] = {name: _convert_references(value, syntax) for name, value in headers.items()}
    return converted


def convert_sign_in(
    entry: Mapping[str, Any], converted: dict[str, Any], title: str, syntax: VariableSyntax
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return a converted entry with the sign-in settings of *entry*, the original one, and notes for the user.

    *title* is the name of the host. An entry with a command is returned unchanged.
    """
    if "url" not in converted:
        return converted, ()
    sign_in = read_sign_in(entry, title)
    headers = {name: _convert_references(value, syntax) for name, value in sign_in.headers.items()}
    if headers:
        converted = {**converted, "headers": {**headers, **converted.get("headers", {})}}
    if sign_in.oauth:
        oauth = dict(sign_in.oauth)
        if "clientSecret" in oauth:
            oauth["clientSecret"] = _convert_references(oauth["clientSecret"], syntax)
        converted = {**converted, "mcphost": {**converted.get("mcphost", {}), "oauth": oauth}}
    return converted, sign_in.notes


def _convert_references(text: str, syntax: VariableSyntax, own: Collection[str] = ()) -> str:
    """Rewrite references in another host's syntax as `${env:NAME}` or `${env:NAME:-default}`.

    Two kinds of references are escaped instead, so that mcphost passes them on to the program unchanged:

    - References that the other host does not expand, such as `${NAME}` in a file of Claude Desktop.
    - `${NAME}` without a default if NAME is in *own*, the variables that the entry itself sets. Programs such as
      mcp-remote expand these references themselves.
    """
    parts: list[str] = []
    end = 0
    for match in syntax.pattern.finditer(text):
        name, default = match["name"], match.groupdict().get("default")
        parts.append(_escape_references(text[end : match.start()], syntax))
        end = match.end()
        if name in own and match.group() == f"${{{name}}}":
            parts.append(f"${{$}}{{{name}}}")
        else:
            parts.append(f"${{env:{name}}}" if default is None else f"${{env:{name}:-{default}}}")
    return "".join((*parts, _escape_references(text[end:], syntax)))


def _escape_references(text: str, syntax: VariableSyntax) -> str:
    """Escape the references in *text* that mcphost would expand but the other host does not."""
    if not syntax.is_complete or "${" not in text:
        return text
    if has_nested_reference(text):
        return text.replace("${", "${$}{")
    kinds = _EXPANDED_KINDS if syntax.has_places else _EXPANDED_KINDS | {"place"}
    parts: list[str] = []
    end = 0
    for reference in find_references(text):
        if reference.kind in kinds:
            parts += (text[end : reference.start], "${$}")
            end = reference.start + 1
    return "".join((*parts, text[end:]))


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnusableEntry(f'Its "{key}" is not text.')
    return value.strip() if key in ("command", "url", "httpUrl", "serverUrl", "cmd", "uri") else value


def _texts(entry: Mapping[str, Any], key: str) -> list[str]:
    value = entry.get(key)
    if value is None:
        return []
    items = cast("list[Any]", value) if isinstance(value, list) else None
    if items is None or len(items) > MAX_ENTRY_VALUES or not all(isinstance(item, str) for item in items):
        raise UnusableEntry(f'Its "{key}" is not a list of at most {MAX_ENTRY_VALUES} texts.')
    return list(items)


def _pairs(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value = entry.get(key)
    if value is None:
        return {}
    members = cast("dict[Any, Any]", value) if isinstance(value, dict) else None
    if members is None or len(members) > MAX_ENTRY_VALUES:
        raise UnusableEntry(f'Its "{key}" is not an object with at most {MAX_ENTRY_VALUES} members.')
    pairs: dict[str, str] = {}
    for name, member in members.items():
        if member is None:  # VS Code removes such a variable, and mcphost passes only a few variables on anyway
            continue
        text = _scalar_text(member)
        if not isinstance(name, str) or text is None:
            raise UnusableEntry(f'A value in its "{key}" is not text.')
        pairs[name] = text
    return pairs


def _scalar_text(value: object) -> str | None:
    """Return a string, number or boolean as text, or None for any other value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _MAX_NUMBER_BITS:
        return None
    return str(value) if isinstance(value, str | int | float) else None
