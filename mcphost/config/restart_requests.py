"""Requests made by `mcphost servers restart`, stored in a small file that every running chat watches."""

import os
import time
from pathlib import Path

from mcphost.errors import ConfigError, MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

REQUESTS_FILE = "restart-requests.json"
_MAX_BYTES = 65_536
_MAX_REQUESTS = 50


class RestartRequest(Struct, frozen=True):
    """A request to restart a server: the server's name, its configuration file, and the time in ns since 1970."""

    name: str
    file: str
    at: int


class _File(Struct, frozen=True):
    requests: tuple[RestartRequest, ...] = ()


class RestartRequests:
    """Store for restart requests in a file that every running chat watches.

    The methods block; call them in a thread.
    """

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / REQUESTS_FILE
        self._signature: tuple[int, ...] = ()
        self._seen = time.time_ns()

    def add(self, name: str, file: str) -> None:
        """Ask every running chat to restart a server. Raises ConfigError if the request cannot be written.

        *file* is the path of the configuration file that contains the server.
        """
        from mcphost.config.file_edits import lock_file_blocking, replace_file

        try:
            make_private_directory(self._path.parent)
            with lock_file_blocking(self._path.with_suffix(".lock")):
                kept = [one for one in self._load() if (one.name, one.file) != (name, file)]
                kept.append(RestartRequest(name, file, time.time_ns()))
                replace_file(self._path, encode(_File(tuple(kept[-_MAX_REQUESTS:]))))
        except OSError as error:
            raise ConfigError(
                f"{self._path} cannot be written: {error.strerror}.", "Restart it in the chat, with /servers."
            ) from error

    def take(self) -> tuple[RestartRequest, ...]:
        """Return the requests made since the last call, or since this object was created.

        Each request is returned only once. A damaged file is treated as empty.
        """
        try:
            status = os.stat(self._path)
        except OSError:
            return ()
        before, self._signature = self._signature, (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._signature == before:
            return ()
        found = tuple(one for one in self._load() if self._seen < one.at)
        self._seen = max((self._seen, *(one.at for one in found)))
        return found

    def _load(self) -> tuple[RestartRequest, ...]:
        from mcphost.config.file_edits import read_snapshot

        try:
            return decode(read_snapshot(self._path, _MAX_BYTES).content, _File).requests
        except (OSError, ConfigError, MalformedMessage):
            return ()
