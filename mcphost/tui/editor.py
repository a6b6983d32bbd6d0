"""The user's own editor on a text: a private file, no shell; the screen is away meanwhile and always comes back."""

import os
import shlex
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio

from mcphost.errors import UsageError

if TYPE_CHECKING:
    from textual.app import App

MAX_BYTES = 4_000_000
"""Bytes that are read back."""
_TERMINATE_SECONDS = 2.0
MIN_EDIT_SECONDS = 2.0
"""Seconds in which nobody edits a text: an editor that changed nothing in them may be open in a window by now."""
TerminalSuspender = Callable[[], AbstractContextManager[None]]


def editor_command() -> tuple[str, ...]:
    """What $VISUAL, or else $EDITOR, says, as words; empty when neither says anything."""
    text = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return (text,)  # no program is called that, which is then said


@contextmanager
def suspend_terminal(app: "App[None]") -> Generator[None]:
    """The terminal is somebody else's, and nothing is drawn. What is raised meanwhile is, once the screen is back."""

    def ignored(*_: object) -> None:
        """Not SIG_IGN, which whoever is started would inherit."""

    failure: BaseException | None = None
    before = signal.signal(signal.SIGQUIT, ignored)
    try:
        with app.suspend(), app.batch_update():
            try:
                yield
            except BaseException as error:  # noqa: BLE001 - Textual does not come back from any
                failure = error
            if not app.is_running or cast("Any", app)._exit:
                # The app is leaving, and the terminal is plain: this is what Textual does not come back from.
                raise failure or UsageError("mcphost is leaving.")
    finally:
        signal.signal(signal.SIGQUIT, before)
    if failure is not None:
        raise failure


async def edit_text(text: str, command: tuple[str, ...], suspend: TerminalSuspender) -> str:
    """The text as the user left it.

    Raises UsageError: no such editor, it failed or did not wait, or what it left cannot be read.

    The file is in a folder that only the user can enter, and is gone afterwards. Cancelling ends the editor.
    """
    if not command or shutil.which(command[0]) is None:
        raise UsageError(
            f"The editor {' '.join(command)[:100]!r} cannot be found.", "Set $VISUAL or $EDITOR to one that is there."
        )
    folder = Path(tempfile.mkdtemp(prefix="mcphost-", dir=_temporary_directory()))  # 0700 by itself
    path = folder / "arguments.json"
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        began = time.monotonic()
        with suspend():
            status = await _run_editor((*command, str(path)))
        took = time.monotonic() - began
        if status != 0:
            how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            raise UsageError(f"The editor {how}; nothing was applied.", "Save and leave it as usual.")
        now = _read_result(path)
        if now == text and took < MIN_EDIT_SECONDS:
            raise UsageError(
                "The editor returned at once and changed nothing.",
                "A graphical one needs an option with which it waits, such as: code --wait",
            )
        return now
    except OSError as error:
        raise UsageError(
            f"The editor could not be used: {error.strerror or error}.", "Edit it here instead."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _temporary_directory() -> str | None:
    """Where files of this login live in memory, if there is such a place; None for the usual one."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return folder if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK) else None


async def _run_editor(command: tuple[str, ...]) -> int:
    process = await anyio.open_process(command, stdin=None, stdout=None, stderr=None)
    try:
        return await process.wait()
    except BaseException:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.terminate()
            with anyio.move_on_after(_TERMINATE_SECONDS):
                await process.wait()
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        raise


def _read_result(path: Path) -> str:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise UsageError("The editor left no file.", "Save it under the same name.")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"What the editor left is over {MAX_BYTES // 1_000_000} MB.", "Shorten it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError("What the editor left is not UTF-8.", "Save it as UTF-8.") from error
