"""Text editing in the user's external editor, which runs without a shell."""

import os
import shlex
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import anyio

from mcphost.errors import UsageError
from mcphost.paths import find_program
from mcphost.translation import _

MAX_BYTES = 4_000_000
"""Maximum size in bytes of the edited text."""
_TERMINATE_SECONDS = 2.0
MIN_EDIT_SECONDS = 2.0
"""If the editor exits within this time without a change, it probably did not wait until its window was closed."""
TerminalSuspender = Callable[[], AbstractContextManager[None]]


def editor_command() -> tuple[str, ...]:
    """Return $VISUAL or else $EDITOR, split into a command and its arguments, or () if both are unset."""
    text = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return (text,)  # no program has this name, so edit_text reports the error


async def edit_text(
    text: str,
    command: tuple[str, ...],
    suspend: TerminalSuspender,
    *,
    name: str = "arguments.json",
    keeps_interrupts: bool = True,
) -> str:
    """Open *text* in the editor *command*, wait until the editor exits, and return the saved text.

    *suspend* returns a context manager that hands the terminal over to the editor. The text is written to a file
    called *name* in a directory with mode 0700, which is deleted afterwards. If *keeps_interrupts* is False, this
    process ignores SIGINT while the editor runs, because Ctrl+C in the terminal is meant for the editor.
    Cancellation terminates the editor. Raises UsageError if the editor is missing, fails, exits immediately without
    a change, or leaves a file that cannot be read.
    """
    program = find_program(command[0]) if command else None
    if program is None:
        raise UsageError(
            _("The editor {command!r} was not found.").format(command=" ".join(command)[:100]),
            _("Set $VISUAL or $EDITOR to an installed editor."),
        )
    folder = Path(tempfile.mkdtemp(prefix="mcphost-", dir=_temporary_directory()))  # mkdtemp sets mode 0700
    path = folder / name
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        began = time.monotonic()
        with suspend():
            status = await _run_editor((program, *command[1:], str(path)), keeps_interrupts=keeps_interrupts)
        took = time.monotonic() - began
        if status != 0:
            how = (
                _("was stopped by signal {text}").format(text=-status)
                if status < 0
                else _("exited with status {status}").format(status=status)
            )
            raise UsageError(
                _("The editor {how}; nothing was applied.").format(how=how),
                _("Save the file and close the editor as usual."),
            )
        now = _read_result(path)
        if now == text and took < MIN_EDIT_SECONDS:
            raise UsageError(
                _("The editor returned at once and changed nothing."),
                _("Add the option that makes it wait, such as: code --wait"),
            )
        return now
    except OSError as error:
        raise UsageError(
            _("The editor could not be used: {strerror}.").format(strerror=error.strerror or error),
            _("Set $VISUAL or $EDITOR to an installed editor."),
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _temporary_directory() -> str | None:
    """Return $XDG_RUNTIME_DIR, which is usually an in-memory file system, or None if it is unset or not writable."""
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    return folder if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK) else None


@contextmanager
def _ignore_interrupts() -> Generator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def _run_editor(command: tuple[str, ...], *, keeps_interrupts: bool) -> int:
    process = await anyio.open_process(command, stdin=None, stdout=None, stderr=None)
    try:
        # Only now, because the editor would inherit it.
        with nullcontext() if keeps_interrupts else _ignore_interrupts():
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
            raise UsageError(_("The editor did not save the file."), _("Save it under the same name."))
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(
            _("The edited text is over {max_bytes} MB.").format(max_bytes=MAX_BYTES // 1000000), _("Shorten it.")
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(_("The edited text is not UTF-8."), _("Save it as UTF-8.")) from error
