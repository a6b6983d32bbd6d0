"""Logging to a file with secrets redacted, never to the terminal; no other module configures logging."""

import errno
import logging
import os
import stat
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from mcphost.errors import McpHostError, unwrap_error
from mcphost.paths import make_private_directory, state_dir
from mcphost.redact import redact
from mcphost.sanitize import sanitize

LEVELS = ("debug", "info", "warning", "error")
MAX_FILE_BYTES = 2_000_000
_BACKUP_COUNT = 3
_MAX_RECORD_LENGTH = 8_000


class RedactingFormatter(logging.Formatter):
    """Formatter that redacts secrets, makes hidden characters visible, and limits the record length."""

    def format(self, record: logging.LogRecord) -> str:
        """Format the record; secrets are removed, and all lines except the first are indented."""
        text = redact(super().format(record))
        # Text from a server inside a record must not be able to forge another record.
        text = sanitize(text).replace("\n", "\n    ")
        return text if len(text) <= _MAX_RECORD_LENGTH else f"{text[:_MAX_RECORD_LENGTH]}… ({len(text)} characters)"


def log_file() -> Path:
    """Return the path of the user's log file."""
    return state_dir() / "mcphost.log"


def configure_logging(level: str = "info") -> Path | None:
    """Log to a rotated file (mode 0600), with secrets redacted, and return the file's path.

    If the file cannot be written, return None and log nothing. Another call changes the file and the level.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _RotatingFileHandler | logging.NullHandler):
            root.removeHandler(handler)
            handler.close()
    logging.raiseExceptions = False  # a full disk must not print into the terminal UI
    path = log_file()
    try:
        make_private_directory(path.parent)
        os.close(_open_log(path))
        handler: logging.Handler = _RotatingFileHandler(path, encoding="utf-8", delay=True)
    except OSError:
        root.addHandler(logging.NullHandler())
        return None
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("mcphost").setLevel(level.upper())
    return path


def _open_log(path: Path) -> int:
    """Open or create a log file for appending, and return its descriptor.

    Raises OSError if the file cannot be opened or is not a regular file. A symbolic link is not followed, because an
    attacker could use one to append log lines to another file.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


def to_mcphost_error(error: Exception, logger: logging.Logger, what: str) -> McpHostError:
    """Return the first McpHostError in *error*, which may be an exception group.

    If *error* contains no McpHostError, it is a bug: *error* is logged to *logger* with the message *what*, and the
    returned error says that mcphost crashed.
    """
    inner = unwrap_error(error)
    if isinstance(inner, McpHostError):
        return inner
    logger.error("%s", what, exc_info=error)
    return McpHostError(f"mcphost crashed: {type(inner).__name__}: {inner}.", "See the log for details.")


class _RotatingFileHandler(logging.FileHandler):
    """Handler that rotates a full log file, and keeps the last three as NAME.1 to NAME.3.

    Importing `logging.handlers` instead would cost 200 kB in each process. A separate class also lets
    `configure_logging` replace its own handler without affecting the handlers of a test runner.
    """

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # a log that keeps growing is better than no log
            self._rotate_if_full()
        with suppress(OSError):  # the file cannot be opened any more
            super().emit(record)

    def _open(self) -> TextIOWrapper:
        return open(_open_log(Path(self.baseFilename)), "a", encoding=self.encoding)

    def _rotate_if_full(self) -> None:
        """Rotate the file if it is full; if another process has already rotated it, only close it."""
        try:
            now = os.stat(self.baseFilename)
        except FileNotFoundError:
            self.close()  # the next record opens it again
            return
        if self.stream is not None and not os.path.samestat(now, os.fstat(self.stream.fileno())):
            self.close()
        if now.st_size < MAX_FILE_BYTES:
            return
        self.close()
        for number in range(_BACKUP_COUNT - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self.baseFilename}.{number}", f"{self.baseFilename}.{number + 1}")
        os.replace(self.baseFilename, f"{self.baseFilename}.1")
        os.close(_open_log(Path(self.baseFilename)))
