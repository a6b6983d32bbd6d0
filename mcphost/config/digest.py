"""What an approval of a server is bound to: a digest, and the same in words for comparing before and after."""

import hashlib
import json
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

from mcphost.clean import visible
from mcphost.config.expand import references
from mcphost.config.schema import ServerConfig

COMPARED_LIMIT = 500
"""Lines; comparing takes time that grows with the square of their number."""


def server_digest(server: ServerConfig) -> str:
    """SHA-256 (hex) of what would be started or reached: command, arguments, folder, address, whose certificates are
    believed, names of environment variables and headers, and which secrets of this machine fill them. Values are left
    out: a rotated token is the same server. So is the server's name: it grants nothing. So is the folder of the user's
    own file, where the servers in it run unless they say otherwise: it can be moved.
    """
    own = server.source == "user" and server.cwd == str(Path(server.file).parent.absolute())
    facts: dict[str, object] = {
        "args": list(server.args),
        "command": server.command,
        "cwd": "" if own else server.cwd,
        "env": sorted(server.env),
        "headers": sorted(name.lower() for name in server.headers),
        "url": server.url,
    }
    if server.ca_file:
        facts["ca_file"] = server.ca_file
    if asked := references(server):
        facts["references"] = [list(one) for one in asked]
    canonical = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def describe(server: ServerConfig) -> tuple[str, ...]:
    """The same facts as lines a person can read and compare; safe to print, nothing shortened."""
    lines: list[str] = []
    if server.is_stdio:
        lines.append(f"command: {_word(server.command)}")
        lines += [f"argument {number}: {_word(text)}" for number, text in enumerate(server.args, 1)]
        lines += [f"folder: {_word(server.cwd)}"] if server.cwd else []
    else:
        lines.append(f"address: {_word(server.url)}")
        lines += [f"certificates: {_word(server.ca_file)}"] if server.ca_file else []
    lines += [f"environment: {_word(name)}" for name in sorted(server.env)]
    lines += [f"header: {_word(name)}" for name in sorted(server.headers, key=str.lower)]
    lines += filled_in(server)
    return tuple(lines)


def filled_in(server: ServerConfig) -> tuple[str, ...]:
    """Which values of this machine it is given, by their names, each on a line of its own; safe to print."""
    return tuple(f"{_word(place)}: {_word(what)}" for place, what in references(server))


def difference(before: Sequence[str], after: Sequence[str]) -> tuple[str, ...]:
    """All lines of both, in order: "- " before what is gone, "+ " before what is new, "  " before what stayed."""
    if len(before) + len(after) > COMPARED_LIMIT:
        return (*(f"- {line}" for line in before), *(f"+ {line}" for line in after))
    lines: list[str] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [f"  {line}" for line in before[start:end]]
        else:
            lines += [f"- {line}" for line in before[start:end]]
            lines += [f"+ {line}" for line in after[new_start:new_end]]
    return tuple(lines)


def _word(text: str) -> str:
    """One line; quoted when it is empty or its ends would not be seen."""
    shown = visible(text, keep_newlines=False)
    return f'"{shown}"' if shown != text or not text or text != text.strip() else shown
