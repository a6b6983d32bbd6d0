"""Functions that find and mask plaintext secrets in the arguments and the URL of a server."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

from mcphost.config.schema import ServerConfig
from mcphost.errors import MalformedMessage
from mcphost.redact import (
    MIN_SECRET_LENGTH,
    find_key_spans,
    is_secret_name,
    is_strong,
    redact_patterns,
)
from mcphost.serialization import decode, dumps, replace

MASK = "[hidden]"
_MAX_TEXT_LENGTH = 8_192
_MAX_ARGUMENTS = 500
_OPTION_VALUE = re.compile(r"(-{0,2}[A-Za-z_][\w.-]{0,80})=(?!=|\Z)")  # a key in base64 may end with "="
_HEADER_VALUE = re.compile(
    r"([A-Za-z][A-Za-z0-9-]{0,80}):\s{0,8}(?:(?:bearer|basic|token|dpop|apikey)\s{1,8})?", re.IGNORECASE
)
_URL_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://")
_USER_NAME = re.compile(r"(?:\$\{[^${}]*+\}|[^:])*+")
"""The name in a URL's user information; the colon of a reference does not end it."""
_KEYRING_REFERENCE = re.compile(r"\$\{keyring:[^${}]{1,200}+\}")
_QUERY_PAIR = re.compile(r"[?&#;]([^=?&#;]{1,80})=([^&#;]*)")
_QUERY_NAME = re.compile(r"(?i)[\w.-]{0,40}(?:token|secret|passw(?:or)?d|key|sig|signature|auth)")
_WHOLE_COMMAND_LINE = re.compile(r"\s-{1,2}[A-Za-z]")
_JSON_MEMBER = re.compile(r"\"([A-Za-z_][\w.-]{0,80})\"\s{0,8}:\s{0,8}\"([^\"\\]{6,2000})\"")
"""A text in JSON; a secret in it has no characters that JSON escapes."""
_USUAL_SECRET_NAME = re.compile(
    r"(?i)[\w.-]{0,60}(?:token|secret|passw(?:or)?d|pass[_-]?phrase|api[_-]?key|private[_-]?key|pat)"
)
_CODE_CHARACTERS = re.compile(r"[\s;|&$()<>{}\[\]`\"'\\,]")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_FILE_NAME = re.compile(r"(?i).*\.(?:json|jsonc|txt|pem|key|crt|ya?ml|toml|env|cfg|ini|js|mjs|cjs|ts|py|sh|rb|jar)")
_WORDS = frozenset({"true", "false", "none", "null", "enabled", "disabled", "bearer", "basic", "oauth", "oauth2"})
_WRAPPERS = frozenset({"env", "sudo", "doas", "cmd", "sh", "bash", "zsh", "dash", "fish", "nice", "nohup", "timeout"})
"""Programs that start the program named in their arguments."""
_CODE_OPTIONS = frozenset(
    ("from", "with", "with-editable", "package", "p", "image", "c", "e", "m", "eval", "require", "r", "import")
)
"""Options whose value decides which code runs, whatever the value looks like."""
_WORDS_BEFORE_VALUES = {
    **dict.fromkeys(("npx", "pnpx", "bunx", "uvx", "dlx", "dnx", "node", "python", "ruby", "perl", "php"), 1),
    **dict.fromkeys(
        ("npm", "pnpm", "yarn", "bun", "uv", "pipx", "docker", "podman", "nerdctl", "deno", "go", "dotnet"), 2
    ),
}
"""Number of positional arguments that decide which code a program runs: a package or script, or a command before it."""


class SecretSpan(NamedTuple):
    """A place in an argument or the URL that usually holds a secret.

    `text` is the whole argument or URL, and `keys` is its path in the entry. The secret is the part of `text`
    from `start` to `end`.
    """

    keys: tuple[str, ...]
    text: str
    start: int
    end: int
    label: str
    """The name of the option, header or parameter, from which the secret's entry in the keyring is named."""

    @property
    def value(self) -> str:
        """The part of `text` that usually holds the secret."""
        return self.text[self.start : self.end]


def find_target_secrets(server: ServerConfig) -> tuple[SecretSpan, ...]:
    """Find the probable plaintext secrets in a server's arguments and URL.

    Text that may be code is not reported: a package name, a script, or text with characters that are common in
    commands. If an argument or the URL has several secrets, the last one comes first.
    """
    spans = [span for span in find_secret_places(server) if span.label and "${" not in span.value]
    return tuple(sorted(_without_overlaps(spans), key=lambda span: (span.keys, -span.start)))


def find_secret_places(server: ServerConfig) -> Iterator[SecretSpan]:
    """Yield the places in a server's arguments and URL that usually hold a secret.

    A place may contain the secret itself, or a reference such as `${env:TOKEN}`.
    """
    if not server.is_stdio:
        # The path of an entry by others is shown in full: it decides which server is reached.
        yield from _find_in_url(("url",), server.url, 0, has_keys=server.source == "user")
        return
    needed = _positional_count(server.command)
    for number, (before, word) in enumerate(pairwise((server.command, *server.args[:_MAX_ARGUMENTS]))):
        keys = ("args", str(number))
        if len(word) <= _MAX_TEXT_LENGTH:
            yield from _find_in_argument(keys, before if number else "", word, may_be_bare=needed <= 0)
        needed -= not word.startswith("-")


def _positional_count(command: str) -> int:
    """Return the number of leading positional arguments of *command* that may be code.

    For example, the result is 1 for `npx`, whose first argument is a package. These arguments are never treated as
    secrets.
    """
    name = command.replace("\\", "/").rsplit("/", 1)[-1].lower().removesuffix(".exe").removesuffix(".cmd")
    return _MAX_ARGUMENTS if name in _WRAPPERS else _WORDS_BEFORE_VALUES.get(name.rstrip("0123456789."), 0)


def _find_in_argument(keys: tuple[str, ...], before: str, word: str, *, may_be_bare: bool) -> Iterator[SecretSpan]:
    start, name = 0, ""
    while match := _OPTION_VALUE.match(word, start):  # twice in --env=NAME=VALUE
        start, name = match.end(), match[1].lstrip("-")
    if not name and (match := _HEADER_VALUE.match(word)) and not word[match.end() :].startswith("//"):
        start, name = match.end(), match[1]
    header = _HEADER_VALUE.match(word, start) if name else None  # --header=NAME: VALUE
    if header is not None and is_secret_name(header[1]) and not is_secret_name(name):
        start, name = header.end(), header[1]
    is_bare = not name
    if is_bare and before.startswith("-") and not word.startswith("-"):
        name = before.lstrip("-")
    if is_bare and not may_be_bare:
        name = ""
    value = word[start:]
    if name and is_secret_name(name) and (_is_reference(value) or _is_named_secret(name, value)):
        yield SecretSpan(keys, word, start, len(word), name)
        return
    for member in _JSON_MEMBER.finditer(word, start) if value.startswith("{") else ():
        if is_secret_name(member[1]) and _is_named_secret(member[1], member[2]):
            yield SecretSpan(keys, word, *member.span(2), member[1])
    option = (before if is_bare else word[:start]).strip("-=").lower()
    if (is_bare and not may_be_bare) or option in _CODE_OPTIONS or value.startswith("git+"):
        return
    if _URL_START.match(value):
        yield from _find_in_url(keys, word, start, has_keys=False)
    elif (start, len(word)) in find_key_spans(word) or _is_reference(value):
        yield SecretSpan(keys, word, start, len(word), name or f"argument-{int(keys[1]) + 1}")


def _is_reference(value: str) -> bool:
    return value.startswith("${") and value.endswith("}") and value.count("${") == 1


def _is_named_secret(name: str, value: str) -> bool:
    """Return whether the value of an option with a secret's name is probably a secret, and not code or a path."""
    if len(value) < MIN_SECRET_LENGTH or value.lower() in _WORDS or value.isdigit() or _may_be_code(value):
        return False
    return is_strong(value) or _USUAL_SECRET_NAME.fullmatch(name) is not None


def _may_be_code(value: str) -> bool:
    """Return whether *value* could be a command, an option, or the path of a file; these are never masked."""
    if value.startswith(("/", "./", "../", "~", "-", "@")) or _CODE_CHARACTERS.search(value):
        return True
    return ("/" in value and not _BASE64.fullmatch(value)) or _FILE_NAME.fullmatch(value) is not None


def _find_in_url(keys: tuple[str, ...], text: str, offset: int, *, has_keys: bool) -> Iterator[SecretSpan]:
    """Yield the places that may hold secrets in the URL that begins at *offset* in *text*.

    These are the user information and the query. With *has_keys*, places anywhere after the host are included if
    they contain an API key with a well-known prefix or a reference to the keyring.
    """
    match = _URL_START.match(text, offset)
    is_open = keys == ("url",) and text.startswith("${")  # a reference that contains the start of the URL
    if len(text) > _MAX_TEXT_LENGTH or (match is None and not is_open):
        return
    start = match.end() if match else 0
    end = next((at for at in range(start, len(text)) if text[at] in "/?#"), len(text))
    userinfo, mark, _host = text[start:end].rpartition("@")
    if mark and userinfo:
        name = found[0] if (found := _USER_NAME.match(userinfo)) else ""
        password = userinfo[len(name) + 1 :]
        if password:
            yield SecretSpan(keys, text, start + len(name) + 1, start + len(userinfo), "password")
        elif is_strong(name) or _is_reference(name):
            yield SecretSpan(keys, text, start, start + len(name), "password")
    for pair in _QUERY_PAIR.finditer(text, end):
        name, value = pair[1], pair[2]
        is_long = len(value) >= MIN_SECRET_LENGTH and value.lower() not in _WORDS
        is_count = value.isdigit() and name.lower().endswith("tokens")
        is_named = _QUERY_NAME.fullmatch(name) is not None or is_secret_name(name)
        if is_named and is_long and not is_count and ("${" not in value or _is_reference(value)):
            yield SecretSpan(keys, text, *pair.span(2), name)
    if has_keys:
        spans = [span for span in find_key_spans(text) if "${" not in text[slice(*span)]]
        spans += [match.span() for match in _KEYRING_REFERENCE.finditer(text)]
        yield from (SecretSpan(keys, text, *span, "url") for span in spans if span[0] >= end)


def _without_overlaps(spans: Sequence[SecretSpan]) -> Iterator[SecretSpan]:
    """Yield the spans that do not overlap an earlier span in the same text."""
    taken: list[SecretSpan] = []
    for span in spans:
        if not any(span.keys == one.keys and span.start < one.end and one.start < span.end for one in taken):
            taken.append(span)
            yield span


def replace_target_secrets(server: ServerConfig, replacement: Callable[[str], str]) -> ServerConfig:
    """Return *server* with each plaintext secret in its arguments and URL replaced.

    *replacement* is called with the label of a secret (the name of its option or parameter), and returns the
    new text.
    """
    args, url = list(server.args), server.url
    for span in find_target_secrets(server):
        if span.keys == ("url",):
            url = _replace(url, span, replacement(span.label))
        else:
            at = int(span.keys[1])
            args[at] = _replace(args[at], span, replacement(span.label))
    return replace(server, args=tuple(args), url=url)


def masked_argv(server: ServerConfig) -> tuple[str, ...]:
    """Return a server's command line with the plaintext secrets in its arguments masked.

    Secrets in a `command` that wrongly contains arguments are masked as well.
    """
    masked = replace_target_secrets(server, lambda label: MASK)
    masked = replace(masked, args=tuple(mask_json(argument, keeps_commands=True) for argument in masked.args))
    command = redact_patterns(masked.command) if _WHOLE_COMMAND_LINE.search(masked.command) else masked.command
    return replace(masked, command=command).argv


def mask_json(argument: str, *, keeps_commands: bool = False) -> str:
    """Return an argument that contains JSON, such as `--config={"password": ["x"]}`, with its secrets masked.

    Pass *keeps_commands* if the argument is shown to the user for approval. Strings that may be code are then not
    masked, so that a project cannot hide a command in a member that looks secret. For the same reason, JSON with
    duplicate names is returned unchanged.
    """
    at = argument.find("{")
    if at < 0:
        return argument
    from mcphost.secret_members import mask_members, may_have_secret_members  # few arguments contain JSON

    if not may_have_secret_members(argument):
        return argument
    try:
        value = decode(argument[at:], object)
    except MalformedMessage:
        return argument
    masked = mask_members(value)
    if keeps_commands:
        if _has_duplicate_names(argument[at:]):
            return argument
        masked = _restore_commands(value, masked)
    return argument if masked == value else f"{argument[:at]}{dumps(masked)}"


def _restore_commands(value: Any, masked: Any) -> Any:
    """Return *masked*, a masked copy of the JSON *value*, with all strings that may be code restored.

    In the restored strings, only URLs with passwords are masked.
    """
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: _restore_commands(inner, masked[name]) for name, inner in members}
    if isinstance(value, list):
        return [_restore_commands(*pair) for pair in zip(cast("list[Any]", value), masked, strict=True)]
    if not isinstance(value, str) or not _may_be_code(value):
        return masked
    from mcphost.config.secret_masking import hide_url_credentials  # loaded with the first such argument

    return hide_url_credentials(value)


def _has_duplicate_names(text: str) -> bool:
    """Return whether an object in the JSON *text*, which is valid, has the same name twice."""
    repeated = False

    def check(members: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        found = dict(members)
        repeated = repeated or len(found) < len(members)
        return found

    json.loads(text, object_pairs_hook=check)
    return repeated


def masked_url(server: ServerConfig) -> str:
    """Return a server's URL with the plaintext secrets in it masked; "" for a server that has a command."""
    return replace_target_secrets(server, lambda label: MASK).url


def _replace(text: str, span: SecretSpan, replacement: str) -> str:
    return f"{text[: span.start]}{replacement}{text[span.end :]}"
