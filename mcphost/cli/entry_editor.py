"""Functions that open a server's entry in the user's editor, and keep the edited text in a file if it is refused."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcphost.cli.printing import print_note
from mcphost.errors import McpHostError, UsageError, join_sentences
from mcphost.translation import _

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "refused-edits"


async def open_in_editor(name: str, entry: dict[str, Any]) -> str:
    """Open a server's entry in the user's editor; return the saved text.

    Raises UsageError if there is no terminal or the editor fails.
    """
    import json
    from contextlib import nullcontext

    from mcphost.external_editor import edit_text, editor_command

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "There is no terminal for an editor.", "Pass the changes as flags, for example --env NAME=VALUE."
        )
    text = json.dumps(entry, indent=2, ensure_ascii=False) + "\n"
    command = editor_command() or ("vi",)
    return await edit_text(text, command, nullcontext, name="server.json", keeps_interrupts=False)


@contextmanager
def keep_refused_text(text: str) -> Generator[None]:
    """Save *text* in a private file if the `with` block fails or is cancelled, unless *text* is empty.

    If the block raises an McpHostError, the file's path is added to the error's hint. In other cases, the path is
    printed.
    """
    try:
        yield
    except BaseException as error:
        if not text:
            raise
        try:
            note = _("{path} contains what you wrote.").format(path=_save(text))
        except OSError as problem:
            note = _("What you wrote could not be kept: {reason}.").format(reason=problem.strerror or problem)
        if isinstance(error, McpHostError):
            error.hint = join_sentences(error.hint, note)
        else:
            print_note(note)
        raise


def _save(text: str) -> "Path":
    """Write *text* to a new file with mode 0600 in the state folder, and return its path. Raises OSError."""
    import secrets
    import time

    from mcphost import paths
    from mcphost.config.file_edits import create_complete_file

    folder = paths.make_private_directory(paths.state_dir() / _FOLDER)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}.json"
    with create_complete_file(path) as file:
        file.write(text.encode(errors="replace"))
    return path
