"""Small forms of the history screen: rename a conversation, and export it to a file."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from textual.app import ComposeResult
from textual.widgets import Input, Static

from mcphost.errors import McpHostError, UsageError
from mcphost.serialization import replace
from mcphost.translation import _
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.inputs import OrderedInput, wait_for_typed_text

if TYPE_CHECKING:
    from mcphost.host.conversation.export import ExportFormat
    from mcphost.host.conversation.history import ConversationHistory
    from mcphost.store.conversations import ConversationInfo

_FORMS: "dict[str, ExportFormat]" = {".md": "markdown", ".json": "json", ".html": "html"}


class RenameForm(FormScreen[str]):
    """Form for a conversation's title; its result is the new title, or None if the user leaves."""

    DEFAULT_CSS = "RenameForm Input { background: $surface; }"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title_text = title

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False, so that no key is ignored: a wrong title does no harm."""
        return False

    def headline(self) -> str:
        """Return the title."""
        return _("Rename the conversation")

    def body(self) -> ComposeResult:
        """Yield an input with the current title."""
        yield OrderedInput(self._title_text, id="title", compact=True, max_length=200)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter rename · esc back")

    def on_mount(self) -> None:
        """Focus the input."""
        super().on_mount()
        self.query_one("#title").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close the form with the new title; show an error if it is empty."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value)
        else:
            self.show_fault(_("A title needs at least one character."))


class ExportForm(FormScreen[None]):
    """Form for the file of an export; the file name's extension determines the format."""

    DEFAULT_CSS = "ExportForm Input { background: $surface; } ExportForm #about { color: $muted; margin: 0 0 1 0; }"

    def __init__(self, history: "ConversationHistory", info: "ConversationInfo") -> None:
        super().__init__()
        self._history = history
        self._info = info

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False, so that no key is ignored: an existing file is never overwritten."""
        return False

    def headline(self) -> str:
        """Return the title."""
        return _("Export the conversation")

    def body(self) -> ComposeResult:
        """Yield an input with a file name made from the conversation's title."""
        from mcphost.host.conversation.export import suggest_file_name

        yield Static(_("The ending chooses the format: .md, .html or .json"), id="about", markup=False)
        yield OrderedInput(suggest_file_name(self._info, "markdown"), id="file", compact=True, max_length=1_000)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter write · esc back")

    def on_mount(self) -> None:
        """Focus the input."""
        super().on_mount()
        self.query_one("#file").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Write the file in the background, then close the form or show the error."""
        event.stop()
        self.run_worker(self._write, group="submit", exclusive=True)

    async def _write(self) -> None:
        from mcphost.host.conversation.export import export_conversation

        field = self.query_one("#file", Input)
        await wait_for_typed_text(field)
        path = _resolve(field.value)
        form = _FORMS.get(path.suffix.lower())
        if form is None:
            self.show_fault(_("The name must end with .md, .html or .json."))
            return
        try:
            messages = await self._history.load(self._info.id)
            info = replace(self._info, messages=len(messages))
            prompt = await self._history.load_system_prompt(info.id)
            export = partial(export_conversation, info, messages, form, system_prompt=prompt)
            text = await anyio.to_thread.run_sync(export)
            await anyio.to_thread.run_sync(_write_new_file, path, text)
        except McpHostError as error:
            self.show_fault(f"{error.message} {error.hint}")
            return
        self.notify(_("Wrote {path}.").format(path=path), markup=False, timeout=6)
        self.dismiss(None)


def _resolve(name: str) -> Path:
    return Path(name.strip()).expanduser()


def _write_new_file(path: Path, text: str) -> None:
    """Write *text* to a new file that only the user can read.

    Raises UsageError if the file exists or cannot be written.
    """
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
    except FileExistsError as error:
        raise UsageError(_("{path} exists.").format(path=path), _("Choose another name.")) from error
    except OSError as error:
        raise UsageError(
            _("{path} cannot be written: {strerror}.").format(path=path, strerror=error.strerror),
            _("Choose another path."),
        ) from error
