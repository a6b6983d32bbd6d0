"""Certificate authority files of servers: read within a size limit, and checked against the approved digest."""

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
"""Bytes; all the authorities of an operating system take 250 kB."""


def ca_file_digest(path: str) -> str:
    """Return the SHA-256 (hex) of the file's content. Raises ConfigError if it is unreadable or too large."""
    return hashlib.sha256(_read_ca_file(path)).hexdigest()


def with_ca_digest(server: ServerConfig) -> ServerConfig:
    """Return a project's server with the current digest of its certificate file; return others unchanged.

    The approval of the returned server covers this content, and its connections accept no other. Raises ConfigError.
    """
    if server.source != "project" or not server.ca_file or server.ca_digest:
        return server
    return replace(server, ca_digest=ca_file_digest(server.ca_file))


def load_authorities(context: "ssl.SSLContext", path: str, digest: str = "") -> None:
    """Add the authorities in a file to those that *context* trusts.

    The file is read once and must have *digest*, if given. Raises ConfigError, ssl.SSLError or ValueError.
    """
    content = _read_ca_file(path)
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise ConfigError("it has changed since it was approved", "Restart the server to approve its present content.")
    # Comments between certificates may have any characters; OpenSSL accepts only ASCII text.
    context.load_verify_locations(cadata=content.decode("ascii", "ignore"))


def _read_ca_file(path: str) -> bytes:
    try:
        return read_bytes(Path(path), MAX_CA_FILE_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(f"The certificate file {path!r} does not exist.", 'Correct "caFile" in mcp.json.') from error
