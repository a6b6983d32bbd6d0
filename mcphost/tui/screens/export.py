"""Export of a conversation to a new file, from the chat or the history screen.

The extension of the file name determines the format.
"""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from textual.app import ComposeResult
from textual.widgets import Input, Static

from mcphost.config.file_edits import create_complete_file
from mcphost.errors import McpHostError, UsageError
from mcphost.serialization import replace
from mcphost.translation import N_, _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.text_inputs import OrderedInput, wait_for_typed_text

if TYPE_CHECKING:
    from mcphost.host.conversation.stored_conversations import StoredConversations
    from mcphost.store.conversations import ConversationInfo

WRONG_ENDING = N_("The name must end with .md, .html or .json.")
_MAX_SHOWN = 1_000


async def write_export(history: "StoredConversations", info: "ConversationInfo", name: str) -> str:
    """Write a conversation to the new file *name*; return a sentence that contains the absolute path.

    A relative name is resolved against the working directory. Raises UsageError if the extension is unknown, or if
    the file exists or cannot be written. Raises StoreError if the conversation cannot be loaded.
    """
    from mcphost.host.conversation.export import export_conversation, find_format

    path = _resolve(name)
    form = find_format(path.name)
    if form is None:
        raise UsageError(_(WRONG_ENDING))
    messages = await history.load(info.id)
    info = replace(info, messages=len(messages))
    prompt = await history.load_system_prompt(info.id)
    calls = await history.load_manual_calls(info.id)
    export = partial(export_conversation, info, messages, form, system_prompt=prompt, manual_calls=calls)
    text = await anyio.to_thread.run_sync(export)
    await anyio.to_thread.run_sync(_write_new_file, path, text)
    return _("Wrote {path}.").format(path=clean_line(str(path), _MAX_SHOWN))


def _resolve(name: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(name.strip())))


def _write_new_file(path: Path, text: str) -> None:
    """Write *text* to a new file that only the user can read.

    Raises UsageError if the file exists or cannot be written.
    """
    shown = clean_line(str(path), _MAX_SHOWN)
    try:
        with create_complete_file(path, 0o600) as file:
            file.write(text.encode("utf-8", "replace"))
    except FileExistsError as error:
        raise UsageError(_("{path} exists.").format(path=shown), _("Choose another name.")) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            _("{path} cannot be written: {strerror}.").format(path=shown, strerror=reason), _("Choose another path.")
        ) from error


class ExportForm(FormScreen[None]):
    """Form that exports a conversation to a file; the extension of the file name determines the format."""

    DEFAULT_CSS = "ExportForm Input { background: $surface; } ExportForm #about { color: $muted; margin: 0 0 1 0; }"

    def __init__(self, history: "StoredConversations", info: "ConversationInfo") -> None:
        super().__init__()
        self._history = history
        self._info = info

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False, so that a key pressed before the form appeared is not ignored.

        Such a key does no harm, because the form never overwrites an existing file.
        """
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
        field = self.query_one("#file", Input)
        await wait_for_typed_text(field)
        try:
            written = await write_export(self._history, self._info, field.value)
        except McpHostError as error:
            self.show_fault(f"{error.message} {error.hint}".strip())
            return
        self.notify(written, markup=False, timeout=8)
        self.dismiss(None)
