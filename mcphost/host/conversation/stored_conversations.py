"""Operations on stored conversations: list, search, preview, rename, pin, delete, and index for search."""

import logging
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from mcphost.errors import StoreError, UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.conversation.unsent_texts import CopyFinder, UnsentTexts
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import Message
from mcphost.serialization import Struct
from mcphost.store.database import Database
from mcphost.store.large_results import ResultStore
from mcphost.store.search_indexer import SearchIndexer

if TYPE_CHECKING:
    from mcphost.store.conversation_deletion import ConversationDeletion
    from mcphost.store.conversations import ConversationInfo, ConversationStore, StoredMessage
    from mcphost.store.manual_calls import StoredManualCall
    from mcphost.store.message_search import EarlierPrompt, EarlierPrompts, SearchResult, SearchStore
    from mcphost.store.salvage import SalvageReport

INDEX_PAUSE = 0.02
"""Seconds to pause between indexing steps, so that messages can be saved without delay."""
PREVIEW_MESSAGES = 12
_log = logging.getLogger(__name__)


class ConversationPreview(Struct, frozen=True):
    """Messages around a chosen message of a stored conversation.

    It also states whether the conversation has more messages before and after these.
    """

    messages: "tuple[StoredMessage, ...]"
    number: int
    has_earlier: bool
    has_later: bool


class StoredConversations:
    """Operations on stored conversations, including the open one.

    `cancel_calls` is called with the id of a deleted conversation, to cancel its background calls.
    """

    def __init__(
        self,
        database: Database,
        active: ActiveConversation,
        results: ResultStore,
        cancel_calls: Callable[[str], object] | None = None,
        copy_finder: Lazy[CopyFinder] | None = None,
    ) -> None:
        self._database = database
        self.unsent = UnsentTexts(database, copy_finder)
        """The unsent text of each conversation."""

        self._active = active
        self._results = results
        self._cancel_calls = cancel_calls

    # Every chat saves unsent text, but few read or change earlier conversations.
    @cached_property
    def _conversations(self) -> "ConversationStore":
        from mcphost.store.conversations import ConversationStore

        return ConversationStore(self._database)

    @cached_property
    def _deletion(self) -> "ConversationDeletion":
        from mcphost.store.conversation_deletion import ConversationDeletion

        return ConversationDeletion(self._database)

    @cached_property
    def _search(self) -> "SearchStore":
        from mcphost.store.message_search import SearchStore

        return SearchStore(self._database)

    async def list_recent(self, limit: int = 100, *, with_runs: bool = True) -> "tuple[ConversationInfo, ...]":
        """Return at most *limit* conversations: the pinned ones, then the newest others. Raises StoreError.

        If *with_runs* is false, conversations of `mcphost run` are left out, unless they were renamed or pinned.
        """
        return await self._conversations.list_recent(limit, pinned_first=True, with_runs=with_runs)

    async def count_runs(self) -> int:
        """Return the number of conversations that `list_recent` omits if its `with_runs` is false.

        Raises StoreError.
        """
        return await self._conversations.count_runs()

    async def find(self, id_prefix: str) -> "ConversationInfo":
        """Return the conversation whose id begins with *id_prefix*.

        Raises UsageError if there is none or more than one, and StoreError.
        """
        matches = await self._conversations.find_by_prefix(id_prefix)
        exact = [row for row in matches if row.id == id_prefix] or list(matches)
        if len(exact) != 1:
            what = "There is no conversation" if not exact else f"{len(exact)} conversations begin with"
            raise UsageError(f"{what} {id_prefix!r}.", "List them with: mcphost sessions")
        return exact[0]

    async def search(self, text: str, *, is_typing: bool = False) -> "SearchResult":
        """Search all conversations (see `SearchStore.search`); cancelling interrupts the search. Raises StoreError.

        If *is_typing* is true, the last word may be incomplete.
        """
        return await self._search.search(text, is_typing=is_typing)

    async def find_prompts(self, text: str) -> "EarlierPrompts":
        """Return the newest messages written by the user that match *text*. Raises StoreError."""
        return await self._search.find_prompts(text)

    def note_prompt(self, prompt: "EarlierPrompt") -> None:
        """Remember which parts of an earlier message came from servers, because the user can send it again."""
        self.unsent.note_copies(prompt.text, prompt.copies)

    async def load(self, conversation_id: str) -> tuple[Message, ...]:
        """Return the messages of a conversation's current branch.

        Raises UsageError if there is no such conversation, and StoreError.
        """
        messages = await self._conversations.load(conversation_id)
        if messages is None:
            raise UsageError("This conversation was deleted.", "List them with: mcphost sessions")
        return messages

    async def load_system_prompt(self, conversation_id: str) -> str:
        """Return the system prompt that the user set for a conversation, or "" if there is none. Raises StoreError."""
        return next(reversed(await self._conversations.system_prompts.load(conversation_id)), "")

    async def load_manual_calls(self, conversation_id: str) -> "tuple[StoredManualCall, ...]":
        """Return the tool calls that the user made on a conversation's current branch, oldest first.

        Returns () if there is no such conversation. Raises StoreError.
        """
        branch = await self._conversations.load_bodies(conversation_id)
        return await self._conversations.manual_calls.load(conversation_id, () if branch is None else branch.numbers)

    async def preview(self, conversation_id: str, number: int = 0) -> ConversationPreview:
        """Return the messages around message *number*, or the last messages if *number* is 0. Raises StoreError."""
        count = PREVIEW_MESSAGES
        messages = await self._conversations.load_around(conversation_id, number, count)
        before = sum(1 for one in messages if one.number < number) if number else len(messages)
        return ConversationPreview(
            messages, number, has_earlier=before >= count // 2, has_later=len(messages) - before > count // 2
        )

    async def rename(self, conversation_id: str, title: str) -> None:
        """Give a conversation a title that the user chose.

        Raises UsageError for an empty title or an unknown conversation, and StoreError.
        """
        await self._conversations.rename(conversation_id, title)
        self._active.handle_rename(conversation_id, " ".join(title.split()))

    async def set_pinned(self, conversation_id: str, *, is_pinned: bool) -> None:
        """Pin a conversation to the top of the list, or unpin it. Raises StoreError."""
        await self._conversations.set_pinned(conversation_id, is_pinned=is_pinned)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its branches, drafts, stored results and search index entries.

        Its background calls are cancelled. If it is open, a new conversation is opened instead. The audit log keeps its
        rows about the conversation, which contain only digests. Raises UsageError while a turn is running in it, and
        StoreError.
        """
        if conversation_id == self._active.id:
            self._active.open_new()
        if self._cancel_calls is not None:
            self._cancel_calls(conversation_id)
        await self._results.delete(await self._deletion.delete(conversation_id))

    async def salvage(self, file: Path, *, mark: str) -> "SalvageReport":
        """Copy the readable conversations of a damaged database file; see `salvage_conversations`.

        The title of each copied conversation ends with *mark* in parentheses.
        """
        from mcphost.store.salvage import salvage_conversations

        return await salvage_conversations(self._database, file, mark=mark)

    async def purge_index(self) -> None:
        """Rewrite the search index to drop the words of deleted conversations. This may take several seconds.

        Raises StoreError.
        """
        await self._deletion.merge_index()

    async def count_pending(self) -> int:
        """Return the number of conversations that are not yet completely indexed for search. Raises StoreError."""
        return await self._search.count_pending()

    async def index_pending(self, *, pause: float = INDEX_PAUSE) -> None:
        """Add all unindexed conversations to the search index, in small steps, newest first.

        *pause* is the pause after each step in seconds. If indexing is cancelled or the process is killed, the next
        call continues where this one stopped. A StoreError ends the indexing and is logged.
        """
        indexer = SearchIndexer(self._database)
        try:
            while await indexer.index_piece():  # noqa: ASYNC110 - the pause is for others, nothing is waited for
                await anyio.sleep(pause)
        except StoreError as error:
            _log.warning("indexing stopped: %s", error)
