"""Output of a command to the file that the user names."""

import os
from pathlib import Path

from mcphost.config.file_edits import replace_file
from mcphost.errors import UsageError


def write_output_file(file_name: str, content: bytes, *, new_mode: int = 0o666) -> None:
    """Write *content* to the file atomically; an existing file keeps its mode. Raises UsageError.

    A new file gets *new_mode* without the bits of the umask.
    """
    target = Path(file_name).expanduser()
    try:
        if target.is_file():
            replace_file(target, content, target.stat().st_mode & 0o777)
        elif not target.exists():
            replace_file(target, content, new_mode & ~_umask())
        else:  # a pipe or a device, which cannot be replaced
            target.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{file_name} cannot be written: {error.strerror}.", "Choose another path.") from error


def _umask() -> int:
    """Return the process's umask; reading it requires setting it for a moment."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
