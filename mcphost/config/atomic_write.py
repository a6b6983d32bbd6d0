"""Changes a file that people write by hand, or one of ours: whole or not at all, and only if nobody else just did."""

import errno
import os
import secrets
import stat
from pathlib import Path

from mcphost.config.json_files import MAX_FILE_BYTES, read_regular_file
from mcphost.errors import ConfigError
from mcphost.serialization import Struct


class FileSnapshot(Struct, frozen=True):
    """A file as it was read, for whoever wants to replace it; `mode` is its permissions."""

    content: bytes
    mode: int
    owner: int


def read_snapshot(path: Path, limit: int = MAX_FILE_BYTES) -> FileSnapshot:
    """A regular file that is no symbolic link.

    Raises FileNotFoundError, or ConfigError for a link, anything but a file, one over `limit` bytes, one unreadable.
    """
    try:
        raw, found = read_regular_file(path, limit, follow=False)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ConfigError(f"{path} is a symbolic link, which mcphost does not write through.") from error
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if len(raw) > limit:
        raise ConfigError(f"{path} is over {limit} bytes.", "Is it the right file?")
    return FileSnapshot(raw, stat.S_IMODE(found.st_mode), found.st_uid)


def replace_if_unchanged(path: Path, before: FileSnapshot | None, after: bytes, *, mode: int | None = None) -> None:
    """Replace the file by `after` if it still is what was read (`before`; None: not there). It keeps its permissions,
    or gets `mode`; a new one has 0600. The old or the new content is there at every moment, also after a crash.

    Raises ConfigError, also when somebody changed it meanwhile: then nothing was written.
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
    """Put a file with this content and these permissions at `path`, at once or not at all. Raises OSError.

    It is written beside it first, under a name that nobody can guess and that no symbolic link stands at; a link at
    `path` is replaced, not followed.
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
        now = read_snapshot(path, max(MAX_FILE_BYTES, len(before.content) if before else 0))
    except FileNotFoundError:
        now = None
    if (now and now.content) != (before and before.content):
        raise ConfigError(f"{path} was changed by somebody else meanwhile; nothing was written.", "Try again.")
