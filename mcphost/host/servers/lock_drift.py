"""Drift: differences between a project's servers and the records in its lock file (`mcphost.lock`)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import anyio.to_thread

from mcphost.client.session import ServerFacts
from mcphost.config.lock_file import LockedServer, LockedTool
from mcphost.config.risky_variables import classify_variable
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.definition_diff import definition_lines, diff_definitions
from mcphost.host.servers.project_lock import ProjectLock
from mcphost.pluralize import pluralize
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct, encode, replace, to_builtins
from mcphost.translation import N_

DriftKind = Literal[
    "server_added", "server_removed", "command", "environment", "address", "headers", "sign_in", "certificates",
    "inputs", "restrictions", "package", "registry", "identity", "tool_added", "tool_removed", "tool_changed",
]  # fmt: skip
MAX_DIFFERENCES = 200
"""Maximum number of differences of one server that are shown line by line; only names are shown for others."""
_MAX_LINES = 400
_MAX_WIDTH = 1_000
_MAX_NAMED = 5
_EDITED_NOTE = N_("The text in the lock file was edited: its digest is that of the present definition.")
_HIDDEN_NOTE = N_("Only parts that the lock file does not repeat differ.")
_DIGEST_NOTE = N_("The lock file has only the digest of the locked definition; this is the present one.")
_UNRECORDED_NOTE = N_("The lock file does not record the variables of the environment file yet; lock again.")
NOTES = frozenset((_EDITED_NOTE, _HIDDEN_NOTE, _DIGEST_NOTE, _UNRECORDED_NOTE))
"""Notes among the lines of a difference, in English."""
_PARTS: dict[DriftKind, tuple[str, ...]] = {
    "command": ("command", "cwd"),
    "environment": ("env", "envFile", "envFileVariables"),
    "address": ("url", "transport"),
    "headers": ("headers",),
    "sign_in": ("oauth",),
    "certificates": ("caFile", "caDigest"),
    "inputs": ("inputs",),
    "restrictions": ("disabledTools", "reviewResults", "sampling"),
    "package": ("package",),
    "registry": ("registry",),
}
"""The keys of a locked server that come from its configuration entry, by kind of drift."""


class Drift(Struct, frozen=True, kw_only=True):
    """One difference between a server and the lock file; `name` is the tool that differs, "" for none.

    `lines` are a diff for reviewers; each starts with `- ` (locked), `+ ` (current) or two spaces (unchanged, or a
    note).
    """

    server: str
    kind: DriftKind
    name: str = ""
    lines: tuple[str, ...] = ()


def compare_servers(name: str, before: LockedServer | None, after: LockedServer | None) -> tuple[Drift, ...]:
    """Return all differences between a server's record in the lock file and its current state.

    *before* is None if the lock file has no such server, and *after* is None if no such server is configured.
    """
    drifts = compare_entries(name, before, after)
    return drifts if before is None or after is None else (*drifts, *compare_connected(name, before, after))


def compare_entries(name: str, before: LockedServer | None, after: LockedServer | None) -> tuple[Drift, ...]:
    """Return the differences between a server's configuration entry and its record in the lock file.

    *before* is None if the lock file has no such server, and *after* is None if no such server is configured.
    """
    if before is None or after is None:
        kind: DriftKind = "server_added" if before is None else "server_removed"
        entry = replace(after or before or LockedServer(), tools={}, identity=None)
        mark = "+" if before is None else "-"
        return (Drift(server=name, kind=kind, lines=_mark_lines(mark, _name_words(to_builtins(entry)))),)
    before, after = _drop_unknown_digest(*_drop_incomparable(before, after))
    old, new = to_builtins(before), to_builtins(after)
    is_unrecorded = before.env_file_variables is None and after.env_file_variables is not None
    notes: dict[DriftKind, tuple[str, ...]] = (
        {"environment": (f"  {_UNRECORDED_NOTE}",)} if is_unrecorded and before.env_file else {}
    )
    return tuple(
        Drift(server=name, kind=kind, lines=(*notes.get(kind, ()), *_diff(_pick(old, keys), _pick(new, keys))))
        for kind, keys in _PARTS.items()
        if _pick(old, keys) != _pick(new, keys)
    )


def _drop_incomparable(before: LockedServer, after: LockedServer) -> tuple[LockedServer, LockedServer]:
    """Return both records, without variables of the environment file that cannot be compared.

    - If the file cannot be read now, its variables are dropped from *before*. The server does not start without it.
    - If the file could not be read when the server was locked, its variables are dropped from *after*. They are kept,
      and so reported as differences, if any of them can decide which code runs or where connections go.
    """
    if after.env_file_variables is None:
        before = replace(before, env_file_variables=None)
    elif before.env_file_variables is None and not any(map(classify_variable, after.env_file_variables)):
        after = replace(after, env_file_variables=None)
    return before, after


def _drop_unknown_digest(before: LockedServer, after: LockedServer) -> tuple[LockedServer, LockedServer]:
    """Return both records, without a package's locked digest if its current digest was not looked up.

    A digest in the command itself, such as the digest of a container image, is always compared.
    """
    locked, present = before.package, after.package
    if locked is None or present is None or locked.type == "oci" or present.digest:
        return before, after
    return replace(before, package=replace(locked, digest="")), after


def compare_connected(name: str, before: LockedServer, after: LockedServer) -> tuple[Drift, ...]:
    """Return the differences between a connected server's identity and tools and those in the lock file.

    *before* is the server's record in the lock file, and *after* is a record of its current state.
    """
    drifts: list[Drift] = []
    if before.identity != after.identity:
        lines = _diff(to_builtins(before.identity) or {}, to_builtins(after.identity) or {})
        drifts.append(Drift(server=name, kind="identity", lines=lines))
    for tool in sorted({*before.tools, *after.tools}):
        if len(drifts) >= MAX_DIFFERENCES:
            drifts += _compare_tool(name, tool, before.tools.get(tool), after.tools.get(tool), show=False)
        else:
            drifts += _compare_tool(name, tool, before.tools.get(tool), after.tools.get(tool))
    return tuple(drifts)


def _compare_tool(
    server: str, name: str, before: LockedTool | None, after: LockedTool | None, *, show: bool = True
) -> Sequence[Drift]:
    if before is None or after is None:
        kind: DriftKind = "tool_added" if before is None else "tool_removed"
        tool, mark = (after, "+") if before is None else (before, "-")
        lines = _mark_lines(mark, tool.definition) if show and tool is not None else ()
        return [Drift(server=server, kind=kind, name=name, lines=lines)]
    same_text = not before.definition or before.definition == after.definition
    if before.digest == after.digest and same_text:
        return []
    lines = _diff_tool(before, after) if show else ()
    return [Drift(server=server, kind="tool_changed", name=name, lines=lines)]


def _diff_tool(before: LockedTool, after: LockedTool) -> tuple[str, ...]:
    digests = f"- digest: {before.digest}", f"+ digest: {after.digest}"
    if before.digest == after.digest:
        return (f"  {_EDITED_NOTE}", *_diff(before.definition, after.definition))
    if before.definition == after.definition:
        return (f"  {_HIDDEN_NOTE}", *digests)
    if not before.definition:
        return (f"  {_DIGEST_NOTE}", *_mark_lines("+", after.definition))
    return _diff(before.definition, after.definition)


def _pick(members: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return _name_words({key: members[key] for key in keys if key in members})


def _name_words(members: dict[str, Any]) -> dict[str, Any]:
    """Return *members* with each word of `command` under a separate, numbered key.

    In a diff of the result, each word then has a line of its own.
    """
    words = members.get("command", ())
    rest = {key: value for key, value in members.items() if key != "command"}
    return rest | {f"command word {number:0{len(str(len(words)))}}": word for number, word in enumerate(words, 1)}


def _diff(before: Any, after: Any) -> tuple[str, ...]:
    if not before or not after:
        return (*_mark_lines("-", before), *_mark_lines("+", after))
    return _bound(diff_definitions(encode(before), encode(after)))


def _mark_lines(mark: str, value: Any) -> tuple[str, ...]:
    return _bound([f"{mark} {line}" for line in definition_lines(encode(value))]) if value else ()


def _bound(lines: Sequence[str]) -> tuple[str, ...]:
    cut = [line if len(line) <= _MAX_WIDTH else f"{line[:_MAX_WIDTH]}…" for line in lines[:_MAX_LINES]]
    rest = len(lines) - _MAX_LINES
    return (*cut, f"  … and {pluralize(rest, 'more line')}") if rest > 0 else tuple(cut)


async def describe_drift(lock: ProjectLock, facts: ServerFacts, tools: Mapping[str, ToolDefinition]) -> str:
    """Return a sentence that describes how a connected server differs from the project's lock file.

    Returns "" if there are no differences.
    """
    if lock.locked is None:
        return lock.problem
    after = await anyio.to_thread.run_sync(partial(lock.read_server, facts, dict(tools)))
    drifts = await anyio.to_thread.run_sync(partial(compare_servers, "", lock.locked, after))
    if not drifts:
        return ""
    names = [
        f"{drift.kind.replace('_', ' ')} {sanitize_line(drift.name, 100)}".strip() for drift in drifts[:_MAX_NAMED]
    ]
    more = f" and {len(drifts) - _MAX_NAMED:,} more" if len(drifts) > _MAX_NAMED else ""
    return f"It differs from the project's lock file: {', '.join(names)}{more}."
