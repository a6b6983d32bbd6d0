"""Sets up file logging through redact; nothing else configures logging, and nothing is ever logged to the terminal."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path

from mcphost.clean import visible
from mcphost.paths import make_private, state_dir
from mcphost.redact import redact

LEVELS = ("debug", "info", "warning", "error")
_BYTES = 2_000_000
_KEPT = 3
_LINE = 8_000


class RedactingFormatter(logging.Formatter):
    """Formats a record, takes the secrets and what is invisible out, and keeps it bounded."""

    def format(self, record: logging.LogRecord) -> str:
        text = redact(super().format(record))
        # A server's text inside a record must not be able to fake further records.
        text = visible(text).replace("\n", "\n    ")
        return text if len(text) <= _LINE else f"{text[:_LINE]}… ({len(text)} characters)"


def log_file() -> Path:
    """Where the log of this user is."""
    return state_dir() / "mcphost.log"


def set_up(level: str = "info") -> Path | None:
    """Send all logging of this process to the rotated, redacted file (0600).

    Returns its path, or None when it cannot be written: then nothing is logged, and the program goes on.
    Idempotent; the last level wins.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _File | logging.NullHandler):
            root.removeHandler(handler)
            handler.close()
    logging.raiseExceptions = False  # a full disk must not print into the terminal UI
    path = log_file()
    try:
        make_private(path.parent)
        path.touch(mode=0o600)
        handler: logging.Handler = _File(path, maxBytes=_BYTES, backupCount=_KEPT, encoding="utf-8", delay=True)
    except OSError:
        root.addHandler(logging.NullHandler())
        return None
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("mcphost").setLevel(level.upper())
    return path


class _File(RotatingFileHandler):
    """Ours, so that setting up twice replaces it and leaves handlers of a test runner alone."""
