"""What an approval of a server is bound to: a digest, and the same in words for comparing before and after."""

import hashlib
import json

from mcphost.clean import visible
from mcphost.config.schema import ServerConfig


def server_digest(server: ServerConfig) -> str:
    """SHA-256 (hex) of what would be started or reached: command, arguments, folder, address, whose certificates are
    believed, names of environment variables and headers. Their values are left out: a rotated token is the same
    server. So is the server's name: it grants nothing.
    """
    facts = {
        "args": list(server.args),
        "command": server.command,
        "cwd": server.cwd,
        "env": sorted(server.env),
        "headers": sorted(name.lower() for name in server.headers),
        "url": server.url,
    }
    if server.ca_file:
        facts["ca_file"] = server.ca_file
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
    return tuple(lines)


def _word(text: str) -> str:
    """One line; quoted when it is empty or its ends would not be seen."""
    shown = visible(text, keep_newlines=False)
    return f'"{shown}"' if shown != text or not text or text != text.strip() else shown
