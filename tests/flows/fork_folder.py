"""The folder with the sockets of the fork servers, which all workers of a test run share.

Who makes it holds the named pipe `alive` open. A fork server reads it as its standard input, and so ends with the run.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_shared: list[Path] = []


def folder() -> Path:
    """Return the folder of this run; make it unless `use` named one."""
    if not _shared:
        _shared.append(_make())
    return _shared[0]


def use(shared: str) -> None:
    """Take the folder that the controller of pytest-xdist made."""
    _shared[:] = [Path(shared)]


def _make() -> Path:
    made = Path(tempfile.mkdtemp(prefix="mcphost-fork-"))
    os.mkfifo(made / "alive")
    alive = os.open(made / "alive", os.O_RDWR)
    atexit.register(shutil.rmtree, made)
    atexit.register(os.close, alive)
    return made
