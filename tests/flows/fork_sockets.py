"""The folder for the sockets of the fork servers, which all workers of a test run share.

The process that creates the folder keeps the named pipe `alive` open. The pipe is the standard input of each fork
server, so the servers end with the test run.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_folders: list[Path] = []


def socket_folder() -> Path:
    """Return the folder of this test run, and create it first unless `use_folder` was called."""
    if not _folders:
        _folders.append(_create_folder())
    return _folders[0]


def use_folder(shared: str) -> None:
    """Use the folder that the pytest-xdist controller has created."""
    _folders[:] = [Path(shared)]


def _create_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mcphost-fork-"))
    os.mkfifo(folder / "alive")
    alive = os.open(folder / "alive", os.O_RDWR)
    atexit.register(shutil.rmtree, folder)
    atexit.register(os.close, alive)
    return folder
