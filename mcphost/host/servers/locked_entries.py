"""Lock file records of servers: the entry in `.mcp.json` without secrets, the server's identity and its tools."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from mcphost.client.session import ServerFacts
from mcphost.config.approval_digest import ca_file_digest
from mcphost.config.env_file import read_env_file
from mcphost.config.lock_file import (
    MAX_TOOL_NAME,
    LockedIdentity,
    LockedInput,
    LockedOrigin,
    LockedPackage,
    LockedServer,
    LockedTool,
    shown_definition,
)
from mcphost.config.mcp_json import OWN_KEY, parse_sampling
from mcphost.config.oauth_settings import list_non_defaults
from mcphost.config.risky_variables import classify_variable
from mcphost.config.schema import SAMPLING_FIELD_BY_KEY, ServerConfig, ServerInput
from mcphost.config.secret_masking import HIDDEN, fingerprint, mask_secrets
from mcphost.config.variable_references import Reference, find_references
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.catalog import fingerprint as definition_digest
from mcphost.redact import PLACEHOLDER, is_secret_name, redact_patterns, redact_registered
from mcphost.registry.package_grammar import find_package
from mcphost.registry.updates import read_record
from mcphost.serialization import as_object, encode, loads, replace
from mcphost.unicode_forms import split_url

NOT_LOCKED = "[value not locked]"
"""Placeholder for the literal value of a variable or header, because the value may be a secret."""
_PLACEHOLDERS = (PLACEHOLDER, HIDDEN, NOT_LOCKED)
_AUTH_SCHEME = re.compile(r"(?i)\s*(?:bearer|basic|token|dpop|apikey)\s+")
_AUTHORITY = re.compile(r"(?i)[a-z][a-z0-9+.-]{0,20}://[^\s/?#\"'<>]*")
"""Scheme and authority of a URL; the rest is left out, because it may contain another URL."""
_HOST = re.compile(r"[\w.:-]+")
_MAX_LABEL = 200
_MAX_PATTERNS = 1_000
"""Number of names by which the cost of digests is divided; constant, so that other names do not change a digest."""
_MAX_ORIGINS = 20
_DIGEST_LENGTH = 32
"""Number of hexadecimal digits of a digest; with fewer digits, someone could find two texts with the same digest."""


def lock_entry(server: ServerConfig, entry: Mapping[str, Any]) -> LockedServer:
    """Return the lock file record of a server's configuration entry, without starting the server.

    Secrets in arguments and in the URL are hidden. Because what looks like a secret may in fact be code to run, a slow
    digest (PBKDF2) of each text with a hidden part is recorded, so that changes are detected. *entry* is the entry as
    written in the configuration file.
    """
    folder = entry.get("cwd")
    package = find_package(server.argv) if server.is_stdio else None
    record = read_record(entry, server.name)
    sign_in = () if server.is_stdio else list_non_defaults(server.oauth)
    count = len(server.env) + len(server.headers) + len(sign_in)
    return LockedServer(
        command=_hide_in_arguments(server.argv, package.word if package else -1) if server.is_stdio else (),
        cwd=folder if server.is_stdio and isinstance(folder, str) else "",
        env={name: _lockable_value(name, text, count) for name, text in server.env.items()},
        env_file=server.env_file,
        env_file_variables=_lock_env_file(server),
        url=_hide_words(server.url),
        transport="" if server.is_stdio else server.transport,
        headers={name: _lockable_value(name, text, count) for name, text in server.headers.items()},
        oauth={
            key: _hide_secret(text, count) if is_secret else _hide_words(text, count)
            for key, text, is_secret in sign_in
        },
        ca_file=_written_ca_file(server, entry),
        ca_digest=_ca_digest(server),
        inputs={one.id: _lock_input(one, len(server.inputs)) for one in server.inputs},
        disabled_tools=tuple(sorted({_hide_words(name, _MAX_PATTERNS) for name in server.disabled_tools})),
        review_results=server.review_results,
        sampling=_lock_sampling(server, entry),
        package=LockedPackage(
            type=cast("Any", package.type),
            name=package.name,
            version=redact_patterns(package.version),
            digest=package.digest,
        )
        if package
        else None,
        registry=LockedOrigin(url=_hide_words(record.url), name=record.server, version=record.version)
        if record
        else None,
    )


def lock_connected(locked: LockedServer, facts: ServerFacts, definitions: Iterable[ToolDefinition]) -> LockedServer:
    """Return *locked* with the identity and the tools of the connected server added."""
    identity = LockedIdentity(
        name=redact_registered(facts.info.name)[:_MAX_LABEL],
        version=redact_registered(facts.info.version)[:_MAX_LABEL],
        protocol_version=facts.revision.value,
    )
    tools = {redact_registered(definition.name)[:MAX_TOOL_NAME]: lock_tool(definition) for definition in definitions}
    return replace(locked, identity=identity, tools=tools)


def lock_tool(definition: ToolDefinition) -> LockedTool:
    """Return a tool's digest and the part of its definition that reviewers see, with secrets hidden."""
    raw = bytes(definition.raw)
    try:
        value = loads(raw)
    except MalformedMessage:
        return LockedTool(digest=f"sha256:{definition_digest(raw)}")
    hidden = _redact_texts(value)
    if hidden != value:
        raw = encode(hidden)
    return LockedTool(digest=f"sha256:{definition_digest(raw)}", definition=shown_definition(hidden))


def _redact_texts(value: Any) -> Any:
    match value:
        case str():
            return redact_registered(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {redact_registered(key): _redact_texts(member) for key, member in members.items()}
        case list():
            return [_redact_texts(item) for item in cast("list[Any]", value)]
        case _:
            return value


def _hide_in_arguments(argv: tuple[str, ...], package: int) -> tuple[str, ...]:
    """Return a command line with secrets hidden; *package* is the index of the package name, -1 for none.

    The package name may look random but is not a secret.
    """
    hidden: list[str] = []
    name = ""
    for position, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if name and not word.startswith("-"):
            hidden.append(mask_secrets(name, word))
        elif equals and _secret_option(option) and value:
            hidden.append(f"{option}={mask_secrets(_secret_option(option), value)}")
        else:
            hidden.append(redact_patterns(word) if position == package else _mask_words(word))
        name = "" if equals else _secret_option(word)
    count = sum(form != word for form, word in zip(hidden, argv, strict=True))
    return tuple(_bind_hidden(word, form, count) for word, form in zip(argv, hidden, strict=True))


def _secret_option(word: str) -> str:
    """Return the name, in upper case, of an option whose value is a secret; "" for any other word."""
    name = word.lstrip("-").upper().replace("-", "_")
    return name if word.startswith("-") and is_secret_name(name) else ""


def _mask_words(text: str) -> str:
    """Return *text* with everything that looks like a secret masked, such as random-looking words."""
    return mask_secrets("", redact_patterns(text))


def _hide_words(text: str, hidden_count: int = 1) -> str:
    """Return *text* with probable secrets hidden; see `_bind_hidden`."""
    return _bind_hidden(text, _mask_words(text), hidden_count)


def _bind_hidden(text: str, hidden: str, hidden_count: int) -> str:
    """Return *hidden*, which is *text* with probable secrets hidden, so that it still changes whenever *text* changes.

    If parts are hidden, three things are appended: a slow digest (PBKDF2) of *text*, the `${…}` references in *text*,
    and the hosts of the addresses in it. They are needed because a hidden part may be code to run instead of a secret.
    They are also appended if *text* itself contains a placeholder such as "[hidden]".

    *hidden_count* is the number of partly hidden texts in the same server entry; if there are many, each digest uses
    fewer iterations.
    """
    if hidden == text and not any(mark in text for mark in _PLACEHOLDERS):
        return text
    shown = _keep_references(text, _add_digest(hidden, text, hidden_count))
    return _add_origins(shown, _find_origins(text) or ())


def _add_digest(shown: str, text: str, hidden_count: int) -> str:
    return f"{shown} ({fingerprint('lock', text, hidden_count)[:_DIGEST_LENGTH]})"


def _add_origins(shown: str, origins: Iterable[str]) -> str:
    return " ".join((shown, *(f"({origin})" for origin in origins)))


def _find_origins(text: str) -> tuple[str, ...] | None:
    """Return scheme, host and port of each address in *text*.

    Returns None if there are too many addresses, or if one is invalid, could be parsed differently by other programs,
    or looks like a secret.
    """
    origins: dict[str, None] = {}
    for match in _AUTHORITY.finditer(text):
        try:
            parts = split_url(match[0])
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return None
        if not _HOST.fullmatch(host) or "\\" in match[0]:  # some programs read a backslash as a slash
            return None
        origins[f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{'' if port is None else f':{port}'}"] = None
    is_plain = len(origins) <= _MAX_ORIGINS and all(_mask_words(origin) == origin for origin in origins)
    return tuple(origins) if is_plain else None


def _find_known(text: str) -> list[Reference]:
    """Return the references in *text* that mcphost expands; other text in the form `${…}` is taken literally."""
    return [reference for reference in find_references(text) if reference.kind != "unknown"]


def _keep_references(text: str, shown: str) -> str:
    """Return *shown*, with the `${…}` references in *text* appended unless *shown* contains all of them.

    *shown* is *text* with secrets hidden.
    """
    names = [reference.short_text for reference in _find_known(text)]
    is_complete = names == [reference.short_text for reference in _find_known(shown)]
    return shown if is_complete else f"{shown} ({' '.join(names)})"


def _lockable_value(name: str, text: str, hidden_count: int) -> str:
    """Return the value of a variable or header as recorded in the lock file; NOT_LOCKED if it is not recorded.

    URLs are recorded with secrets hidden, and so are values that decide which code runs or where connections go. Of any
    other value, only references such as `${NAME}` are recorded. If the value contains both references and other text, a
    slow digest of the whole value is added, because the other text can decide who receives the referenced secrets. See
    `_bind_hidden` for *hidden_count*.
    """
    is_risky, is_secret = classify_variable(name) is not None, is_secret_name(name)
    if "://" in text or (is_risky and not is_secret):
        return _hide_words(text, hidden_count)
    if is_risky:
        return _hide_secret(text, hidden_count)
    if not _find_known(text):
        return NOT_LOCKED
    shown, has_literals = _hide_literals(text, NOT_LOCKED)
    return _add_digest(shown, text, hidden_count) if has_literals else shown


def _lock_env_file(server: ServerConfig) -> dict[str, str] | None:
    """Return the lock file record of the variables in a server's environment file.

    Returns None if the server has no such file or it cannot be read. Only URLs and values that decide which code runs
    or where connections go are recorded. Text such as `${NAME}` is not a reference in this file.
    """
    try:
        variables = read_env_file(server, os.environ) if server.env_file else None
    except ConfigError:
        return None
    if variables is None:
        return None
    count = len(variables)
    return {name: _lock_file_variable(name, text, count) for name, text in variables.items()}


def _lock_file_variable(name: str, text: str, hidden_count: int) -> str:
    """Return the value of a variable in an environment file as recorded in the lock file.

    Returns NOT_LOCKED if the value is not recorded. Each developer may have a file with other credentials. The record
    is therefore the same for two URLs that differ only in credentials: in probable secrets, or for the URL of a package
    source, in the user name. It always differs if the hosts differ. See `_bind_hidden` for *hidden_count*.
    """
    risk = classify_variable(name)
    origins = _find_origins(text) if "://" in text and risk in (None, "network", "packages") else None
    if origins is None:
        return _lockable_value(name, text, hidden_count) if "://" in text or risk else NOT_LOCKED
    hidden = _mask_words(text)
    compared = _AUTHORITY.sub(_drop_user, text) if risk == "packages" else redact_patterns(text)
    shown = hidden if _mask_words(compared) == compared else _add_digest(hidden, compared, hidden_count)
    return shown if hidden == text else _add_origins(shown, origins)


def _drop_user(match: re.Match[str]) -> str:
    scheme, _, authority = match[0].partition("://")
    return f"{scheme}://{authority.rpartition('@')[2]}"


def _hide_secret(text: str, hidden_count: int) -> str:
    """Return *text* with everything hidden except `${…}` references.

    If anything was hidden, a slow digest of the whole text is appended. See `_bind_hidden` for *hidden_count*.
    """
    shown, has_literals = _hide_literals(text, HIDDEN)
    return _add_digest(shown, text, hidden_count) if has_literals else shown


def _hide_literals(text: str, placeholder: str) -> tuple[str, bool]:
    """Return *text* with literal text replaced with *placeholder*, and whether anything was replaced or dropped.

    `${…}` references are kept, but without their default values. Whitespace and authentication schemes such as `Bearer`
    are kept.
    """
    parts: list[str] = []
    end, has_literals = 0, False
    for reference in (*_find_known(text), None):
        literal = text[end : reference.start if reference else len(text)]
        is_plain = not literal.strip() or _AUTH_SCHEME.fullmatch(literal) is not None
        parts.append(literal if is_plain else placeholder)
        has_literals |= not is_plain
        if reference is not None:
            parts.append(reference.short_text)
            has_literals |= bool(reference.default)
            end = reference.start + len(reference.text)
    return "".join(parts), has_literals


def _lock_input(one: ServerInput, hidden_count: int) -> LockedInput:
    return LockedInput(
        description=_hide_words(one.description, hidden_count),
        password=one.password,
        options=tuple(_hide_words(option, hidden_count * len(one.options)) for option in one.options),
        default=_hide_secret(one.default, hidden_count) if one.password else _hide_words(one.default, hidden_count),
    )


def _lock_sampling(server: ServerConfig, entry: Mapping[str, Any]) -> dict[str, int]:
    """Return the sampling limits in *entry*; limits that do not apply to a project's server are also recorded."""
    limits = as_object(entry.get(OWN_KEY)).get("sampling")
    parsed = parse_sampling(limits, server.name, "flag", list[str]().append)
    return {key: parsed[field] for key, field in SAMPLING_FIELD_BY_KEY.items() if field in parsed}


def _written_ca_file(server: ServerConfig, entry: Mapping[str, Any]) -> str:
    """Return the path of the certificate file as written in *entry*, or its absolute path if *entry* has none."""
    written = as_object(entry.get(OWN_KEY)).get("caFile")
    return written if server.ca_file and isinstance(written, str) else server.ca_file


def _ca_digest(server: ServerConfig) -> str:
    """Return the digest of the certificate file, or "" if there is none or it cannot be read."""
    try:
        return f"sha256:{server.ca_digest or ca_file_digest(server.ca_file)}" if server.ca_file else ""
    except ConfigError:
        return ""
