"""Summaries of actions and questions for the audit log, with secrets removed."""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcphost.redact import redact_command, redact_identifier, redact_with_issuers
from mcphost.serialization import decode, dumps

if TYPE_CHECKING:
    from mcphost.host.argument_origins import ArgumentOrigin

CONTENT_LIMIT = 30_000
"""Maximum number of characters of a recorded question or answer."""
NAME_LIMIT = 200
"""Maximum number of characters of each recorded tool name."""
_LONGEST_SECRET = 64 * 1024
_MAX_ORIGINS = 20
_TOOL_LISTS = ("kept", "held_back")
_COMMANDS = frozenset({"process", "connection", "trust", "browser", "hook"})


def arguments_digest(arguments: Mapping[str, Any] | None) -> str:
    """Return the hexadecimal SHA-256 of a tool call's arguments as canonical JSON, or "" for None."""
    if arguments is None:
        return ""
    try:
        text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = dumps(arguments)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def origin_details(origins: "tuple[ArgumentOrigin, ...]") -> dict[str, Any]:
    """Return the sources that a call's arguments were copied from, with lengths and digests.

    The copied text is not included. If there are many origins, some are left out, but at least one is listed for each
    server.
    """
    if not origins:
        return {}
    from mcphost.host.argument_origins import shorten  # loaded with the first copied argument

    listed = shorten(origins, _MAX_ORIGINS)
    rows = [
        {
            "server": redact_identifier(origin.server)[:NAME_LIMIT],
            "tool": redact_identifier(origin.source)[:NAME_LIMIT],
            "argument": redact_identifier(origin.argument)[:NAME_LIMIT],
            "characters": origin.characters,
            "encoding": origin.encoding,
            "sha256": origin.digest,
        }
        for origin in listed
    ]
    more = len(origins) - len(listed)
    return {"origins": rows, **({"more_origins": more} if more else {})}


def redact_name(kind: str, name: str) -> str:
    """Remove secrets from the name of an audit subject.

    Depending on *kind*, the name is treated as a command or as an identifier.
    """
    return redact_command(name) if kind in _COMMANDS else redact_identifier(name)


def redact_rule(text: str) -> str:
    """Remove secrets from the text of a rule or from a grant id.

    Server and tool names stay readable.
    """
    names, mark, conditions = text.partition("?")
    return redact_identifier(names) + redact_command(mark + conditions)


def to_redacted_json(value: Any) -> str:
    """Return the value as JSON with secrets removed, truncated to 30,000 characters."""
    from mcphost.secret_members import mask_members, may_have_secret_members

    text = dumps(value)
    if may_have_secret_members(text):
        text = dumps(mask_members(decode(text, object)))
    # Redact before truncating, so that no part of a secret remains at the end.
    text = redact_with_issuers(text[: CONTENT_LIMIT + _LONGEST_SECRET])
    return text if len(text) <= CONTENT_LIMIT else text[:CONTENT_LIMIT] + "…"


def redact_details(members: Mapping[str, Any]) -> str:
    """Return the details of an audit row as JSON with secrets removed, or "" if there are none.

    Tool names and the origins of arguments remain readable.
    """
    if not members:
        return ""
    from mcphost.secret_members import redact_values

    redacted = redact_values(members, redact_with_issuers)
    redacted |= {
        key: [redact_identifier(name[:NAME_LIMIT]) for name in members[key]] for key in _TOOL_LISTS if key in members
    }
    if "origins" in members:
        redacted["origins"] = members["origins"]  # redacted by `origin_details`; a digest looks like a secret
    return dumps(redacted)
