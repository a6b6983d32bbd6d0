"""Export of a conversation to a new file, from the chat or the history screen.

The extension of the file name determines the format.
"""

from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost.errors import UsageError
from mcphost.serialization import replace
from mcphost.translation import N_, _
from mcphost.tui.screens.save_file import SaveFileForm, resolve_file_name, write_new_file

if TYPE_CHECKING:
    from mcphost.host.conversation.stored_conversations import StoredConversations
    from mcphost.store.conversations import ConversationInfo

WRONG_ENDING = N_("The name must end with .md, .html or .json.")


async def write_export(history: "StoredConversations", info: "ConversationInfo", name: str) -> str:
    """Write a conversation to a new file; return a message that contains the file's absolute path.

    A relative *name* is resolved against the working directory. Raises UsageError if the extension is unknown, or
    if the file exists or cannot be written. Raises StoreError if the conversation cannot be loaded.
    """
    from mcphost.host.conversation.export import export_conversation, find_format

    path = resolve_file_name(name)
    form = find_format(path.name)
    if form is None:
        raise UsageError(_(WRONG_ENDING))
    messages = await history.load(info.id)
    info = replace(info, messages=len(messages))
    prompt = await history.load_system_prompt(info.id)
    calls = await history.load_manual_calls(info.id)
    export = partial(export_conversation, info, messages, form, system_prompt=prompt, manual_calls=calls)
    text = await anyio.to_thread.run_sync(export)
    return await anyio.to_thread.run_sync(write_new_file, path, text.encode("utf-8", "replace"))


class ExportForm(SaveFileForm):
    """Form that exports a conversation to a file; the extension of the file name determines the format."""

    def __init__(self, history: "StoredConversations", info: "ConversationInfo") -> None:
        super().__init__()
        self._history = history
        self._info = info

    def headline(self) -> str:
        """Return the title."""
        return _("Export the conversation")

    def description(self) -> str:
        """Return a line that explains how the extension of the file name determines the format."""
        return _("The ending chooses the format: .md, .html or .json")

    def suggest_name(self) -> str:
        """Return a file name derived from the conversation's title."""
        from mcphost.host.conversation.export import suggest_file_name

        return suggest_file_name(self._info, "markdown")

    async def write(self, name: str) -> str:
        """Write the conversation to the file *name* and return a message to show; see `write_export`."""
        return await write_export(self._history, self._info, name)
