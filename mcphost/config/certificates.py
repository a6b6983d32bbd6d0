"""The file of certificate authorities that an entry names: read whole within a bound, and held to what was approved."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from mcphost.config.json_files import read_bytes
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConfigError
from mcphost.serialization import replace

if TYPE_CHECKING:
    import ssl

MAX_CA_FILE_BYTES = 4_000_000
"""Bytes; all the authorities that a system comes with take 250 kB."""


def ca_file_digest(path: str) -> str:
    """SHA-256 (hex) of the file's content. Raises ConfigError for what cannot be read whole."""
    return hashlib.sha256(_read_ca_file(path)).hexdigest()


def with_ca_digest(server: ServerConfig) -> ServerConfig:
    """Return a project's server with the digest of its certificates as they are now; others are returned as they are.

    An approval of that covers this content, and a connection with it believes no other. Raises ConfigError.
    """
    if server.source != "project" or not server.ca_file or server.ca_digest:
        return server
    return replace(server, ca_digest=ca_file_digest(server.ca_file))


def load_authorities(context: "ssl.SSLContext", path: str, digest: str = "") -> None:
    """Make `context` believe the authorities in this file, besides those it does.

    The file is read once: with a `digest` these very bytes must have it. Raises ConfigError, ssl.SSLError, ValueError.
    """
    content = _read_ca_file(path)
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ConfigError("it is not what was approved", "Restart the server; you are asked about what it is now.")
    # Comments between certificates may hold any letters; what OpenSSL takes as text is ASCII.
    context.load_verify_locations(cadata=content.decode("ascii", "ignore"))


def _read_ca_file(path: str) -> bytes:
    try:
        return read_bytes(Path(path), MAX_CA_FILE_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(
            f"The file of certificates {path!r} does not exist.", 'Correct "caFile" in mcp.json.'
        ) from error
