"""Lock file records of servers: the entry in `.mcp.json` without secrets, the server's identity and its tools."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from mcphost.client.session import ServerFacts
from mcphost.config.lock_file import (
    MAX_TOOL_NAME,
    LockedIdentity,
    LockedOrigin,
    LockedPackage,
    LockedServer,
    LockedTool,
    shown_definition,
)
from mcphost.config.references import find_references
from mcphost.config.risky_variables import classify_variable
from mcphost.config.schema import ServerConfig
from mcphost.config.secrets import fingerprint, mask_secrets
from mcphost.errors import MalformedMessage
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.catalog import fingerprint as definition_digest
from mcphost.redact import is_secret_name, redact_patterns, redact_registered
from mcphost.registry.package_grammar import find_package
from mcphost.registry.updates import read_record
from mcphost.serialization import encode, loads, replace

NOT_LOCKED = "[value not locked]"
"""Placeholder for the literal value of a variable or header, because the value may be a secret."""
_MAX_LABEL = 200


def lock_entry(server: ServerConfig, entry: Mapping[str, Any]) -> LockedServer:
    """Return the lock file record of a server's configuration entry; nothing is started.

    Secrets in arguments and in the URL are hidden. *entry* is the entry as written in the configuration file.
    """
    folder = entry.get("cwd")
    package = find_package(server.argv) if server.is_stdio else None
    record = read_record(entry, server.name)
    return LockedServer(
        command=_hide_in_arguments(server.argv, package.word if package else -1) if server.is_stdio else (),
        cwd=folder if server.is_stdio and isinstance(folder, str) else "",
        env={name: _lockable_value(name, text) for name, text in server.env.items()},
        env_file=server.env_file,
        url=_hide_words(server.url),
        transport="" if server.is_stdio else server.transport,
        headers={name: _lockable_value(name, text) for name, text in server.headers.items()},
        package=LockedPackage(
            type=cast("Any", package.type),
            name=package.name,
            version=redact_patterns(package.version),
            digest=package.digest,
        )
        if package
        else None,
        registry=LockedOrigin(url=redact_patterns(record.url), name=record.server, version=record.version)
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
    shown: list[str] = []
    name = ""
    hidden_count = sum(_has_random_words(word) for word in argv)
    for position, word in enumerate(argv):
        option, equals, value = word.partition("=")
        if name and not word.startswith("-"):
            shown.append(mask_secrets(name, word))
        elif equals and _secret_option(option) and value:
            shown.append(f"{option}={mask_secrets(_secret_option(option), value)}")
        else:
            shown.append(redact_patterns(word) if position == package else _hide_words(word, hidden_count))
        name = "" if equals else _secret_option(word)
    return tuple(shown)


def _secret_option(word: str) -> str:
    """Return the name, in upper case, of an option whose value is a secret; "" for any other word."""
    name = word.lstrip("-").upper().replace("-", "_")
    return name if word.startswith("-") and is_secret_name(name) else ""


def _has_random_words(text: str) -> bool:
    plain = redact_patterns(text)
    return mask_secrets("", plain) != plain


def _hide_words(text: str, hidden_count: int = 1) -> str:
    """Return *text* with probable secrets hidden.

    A random-looking word is not always a secret; it may be part of the code to run. The result therefore contains a
    slow digest, which reveals that the word changed but not the word itself. *hidden_count* is the number of texts in
    the entry that contain such words; if there are many, each digest uses fewer iterations.
    """
    plain = redact_patterns(text)
    hidden = mask_secrets("", plain)
    return hidden if hidden == plain else f"{hidden} ({fingerprint('lock', plain, hidden_count)[:16]})"


def _lockable_value(name: str, text: str) -> str:
    """Return the value of a variable or header as recorded in the lock file; NOT_LOCKED if it is left out.

    References are recorded, and so are values that decide which code runs or where connections go.
    """
    references = find_references(text)
    if references and "".join(reference.text for reference in references) == text:
        return "".join(reference.short_text for reference in references)
    return NOT_LOCKED if classify_variable(name) is None or is_secret_name(name) else _hide_words(text)
