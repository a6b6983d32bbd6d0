"""A terminal with folders on separate file systems that can be filled, freed and made read-only.

The file systems exist only in a mount namespace of the terminal's shell, so neither root rights nor a real disk are
needed. Other processes can reach them below `/proc/PID/root`, where PID is the shell's.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conftest import skip_or_fail
from tests.terminal.chat_session import ChatSession, begin_chat, quit_chat
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.scripted_model import MODEL
from tests.terminal.terminal import PROMPT, Terminal

BALLAST = "ballast"
_QUERY = """
import json, sqlite3, sys
print(json.dumps([[str(one) for one in row] for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2])]))
"""


class Mounts:
    """The file systems in the mount namespace of a terminal's shell."""

    def __init__(self, terminal: Terminal) -> None:
        """Replace the terminal's shell by one in a new mount namespace, or skip the test where that is not possible."""
        if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode != 0:
            skip_or_fail("no mount namespaces: unshare -rm failed (util-linux, kernel.unprivileged_userns_clone)")
        self._shell = int(terminal.tmux("list-panes", "-F", "#{pane_pid}"))
        before = Path(f"/proc/{self._shell}/ns/mnt").readlink()
        terminal.run("exec", "unshare", "-rm", "sh", "-i")
        terminal.wait_until(
            lambda screen: self._namespace() != before and screen.rstrip().endswith(PROMPT), "a shell in a namespace"
        )

    def _namespace(self) -> Path:
        return Path(f"/proc/{self._shell}/ns/mnt").readlink()

    def inside(self, path: Path) -> Path:
        """Return the path through which other processes can reach the file *path* of the namespace."""
        return Path(f"/proc/{self._shell}/root{path}")

    def add_disk(self, folder: Path, size: str = "4m") -> None:
        """Mount an empty file system of *size* (such as `4m`) on a new folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))

    def fill(self, folder: Path) -> None:
        """Fill the file system of a folder until no byte is free."""
        self._run("sh", "-c", 'cat /dev/zero >> "$1" 2>/dev/null; true', "sh", str(folder / BALLAST))

    def free(self, folder: Path) -> None:
        """Free the space that `fill` has used."""
        self._run("rm", str(folder / BALLAST))

    def make_read_only(self, folder: Path) -> None:
        """Make a folder read-only."""
        self._run("mount", "--bind", str(folder), str(folder))
        self._run("mount", "-o", "remount,bind,ro", str(folder))

    def make_writable(self, folder: Path) -> None:
        """Make a folder writable again after `make_read_only`."""
        self._run("mount", "-o", "remount,bind,rw", str(folder))

    def query(self, database: Path, query: str) -> list[list[Any]]:
        """Return the rows that an SQL query finds in a database inside the namespace."""
        # SQLite resolves symbolic links, also /proc/PID/root, so the path from outside would lead it astray.
        return json.loads(self._run(sys.executable, "-c", _QUERY, str(database), query))

    def _run(self, *command: str) -> str:
        enter: Sequence[str] = ("nsenter", "-t", str(self._shell), "-U", "-m", "--preserve-credentials", "--")
        done = subprocess.run([*enter, *command], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, done.stderr
        return done.stdout


def begin_on_disks(session: ChatSession, mounts: Mounts, *disks: str) -> None:
    """Open a chat with a model and a server, with the folders *disks* on small file systems."""
    for name in disks:
        mounts.add_disk(session.folder / name)
    begin_chat(session)


def begin_again(session: ChatSession) -> None:
    """Quit the chat of `begin_on_disks`, and open it again."""
    quit_chat(session)
    session.terminal.run("clear")
    session.terminal.run(*with_forked_worker())
    session.terminal.wait_for("Type a message", f"ollama_chat/{MODEL}")
