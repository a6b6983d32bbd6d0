"""Base class for forms that write a new file; an existing file is never overwritten."""

import os
from pathlib import Path

from textual.app import ComposeResult
from textual.widgets import Input, Static

from mcphost.config.file_edits import create_complete_file
from mcphost.errors import McpHostError, UsageError
from mcphost.translation import _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.text_inputs import OrderedInput, wait_for_typed_text

_MAX_SHOWN = 1_000


def resolve_file_name(name: str) -> Path:
    """Return the absolute path of a file name that the user typed.

    A relative name is resolved against the working directory, and a leading `~` is expanded.
    """
    return Path(os.path.abspath(os.path.expanduser(name.strip())))


def write_new_file(path: Path, content: bytes) -> str:
    """Write *content* to a new file that only the user can read; return a message that contains the path.

    Raises UsageError if the file exists or cannot be written.
    """
    shown = clean_line(str(path), _MAX_SHOWN)
    try:
        with create_complete_file(path) as file:
            file.write(content)
    except FileExistsError as error:
        raise UsageError(_("{path} exists.").format(path=shown), _("Choose another name.")) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            _("{path} cannot be written: {strerror}.").format(path=shown, strerror=reason), _("Choose another path.")
        ) from error
    return _("Wrote {path}.").format(path=shown)


class SaveFileForm(FormScreen[None]):
    """Base class for forms that ask for a file name and write a new file with this name.

    Subclasses define `headline`, `description`, `suggest_name` and `write`.
    """

    DEFAULT_CSS = "SaveFileForm Input { background: $surface; } SaveFileForm #about { color: $muted; margin: 0 0 1 0; }"

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False: a key is handled even if it was pressed just before the form appeared.

        Such a key does no harm, because the form never overwrites an existing file.
        """
        return False

    def description(self) -> str:
        """Return the line of text that is shown above the file name."""
        raise NotImplementedError

    def suggest_name(self) -> str:
        """Return the file name that the input initially contains."""
        raise NotImplementedError

    async def write(self, name: str) -> str:
        """Write the file *name* and return a message to show to the user.

        Raises McpHostError if the file cannot be written.
        """
        raise NotImplementedError

    def body(self) -> ComposeResult:
        """Yield the description and an input with the suggested name."""
        yield Static(self.description(), id="about", markup=False)
        yield OrderedInput(self.suggest_name(), id="file", compact=True, max_length=1_000)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter save · esc back")

    def on_mount(self) -> None:
        """Focus the input."""
        super().on_mount()
        self.query_one("#file").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Write the file in the background, then close the form or show the error."""
        event.stop()
        self.run_worker(self._write, group="submit", exclusive=True)

    async def _write(self) -> None:
        field = self.query_one("#file", Input)
        await wait_for_typed_text(field)
        try:
            written = await self.write(field.value)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.notify(written, markup=False, timeout=8)
        self.dismiss(None)
