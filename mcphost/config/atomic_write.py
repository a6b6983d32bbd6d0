"""Atomic replacement of files, optionally only if the file has not changed since it was read."""

import errno
import os
import secrets
import stat
from pathlib import Path

from mcphost.config.json_files import MAX_FILE_BYTES, read_regular_file
from mcphost.errors import ConfigError
from mcphost.serialization import Struct


class FileSnapshot(Struct, frozen=True):
    """The content and metadata of a file when it was read; `mode` has its permissions."""

    content: bytes
    mode: int
    owner: int


def read_snapshot(path: Path, limit: int = MAX_FILE_BYTES) -> FileSnapshot:
    """Return a regular file of at most *limit* bytes.

    Raises FileNotFoundError, or ConfigError if it is a symbolic link, no regular file, too large or unreadable.
    """
    try:
        raw, status = read_regular_file(path, limit, follow_links=False)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a symbolic link, which mcphost does not write through.") from error
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if len(raw) > limit:
        raise ConfigError(f"{path} is over {limit} bytes.", "Is it the right file?")
    return FileSnapshot(raw, stat.S_IMODE(status.st_mode), status.st_uid)


def replace_if_unchanged(path: Path, before: FileSnapshot | None, after: bytes, *, mode: int | None = None) -> None:
    """Replace the content of a file if it is still *before*; None means that the file must not exist.

    The file keeps its permissions unless *mode* is given; a new one gets 0600. A crash leaves the old or the new
    content. Raises ConfigError, also if the file has changed; then nothing is written.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}")
    rights = mode if mode is not None else (before.mode if before else 0o600)
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(after)
                os.fchmod(descriptor, rights)
                file.flush()
                os.fsync(descriptor)
            _check_unchanged(path, before)
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror or type(error).__name__}.", "Check the folder's permissions."
        ) from error


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Create or replace a file atomically. Raises OSError.

    A symbolic link at *path* is replaced, not followed. The content is first written to an unpredictable name in the
    same folder.
    """
    fresh = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.part")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            os.fchmod(descriptor, mode)
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _check_unchanged(path: Path, before: FileSnapshot | None) -> None:
    try:
        current = read_snapshot(path, max(MAX_FILE_BYTES, len(before.content) if before else 0))
    except FileNotFoundError:
        current = None
    if (current and current.content) != (before and before.content):
        raise ConfigError(f"{path} was changed by another program; nothing was written.", "Try again.")
