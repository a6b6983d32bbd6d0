"""Texts that the user typed but did not send, kept for each conversation and stored periodically."""

import logging
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Protocol

import anyio

from mcphost.errors import StoreError
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import CopiedText
from mcphost.serialization import replace
from mcphost.store.database import Database
from mcphost.store.unsent_texts import UnsentText, UnsentTextStore, make_new_place

_log = logging.getLogger(__name__)


class CopyFinder(Protocol):
    """Interface for finding what the user copied from texts that came from servers.

    Only server texts that the user can edit and send, such as prompts, are searched for.
    """

    async def find_copies(self, text: str) -> tuple[CopiedText, ...]:
        """Return the parts of a text that were copied from servers."""
        ...

    def note_copies(self, text: str, copies: Iterable[CopiedText]) -> None:
        """Remember the parts of a text that an earlier run found to be copied from servers."""
        ...


class UnsentTexts:
    """Texts that the user typed into an input field but has not sent, keyed by place.

    A place is the id of a conversation, or a key from `claim_new` for a new conversation. The parts of each text that
    were copied from servers are stored with it, so that they do not count as typed by the user after a restart. If
    the store fails, the texts are lost when mcphost exits, and the failure is logged.
    """

    def __init__(self, database: Database, copy_finder: Lazy[CopyFinder] | None = None) -> None:
        """Create the store of unsent texts in *database*.

        *copy_finder* finds parts of a text that came from servers. It is created when a server first provides a text
        that the user can edit; before that, there is nothing to find.
        """
        self._store = UnsentTextStore(database)
        self._copy_finder = copy_finder
        self._waiting: dict[str, UnsentText] = {}
        self._saving = anyio.Lock()

    def keep(self, place: str, text: UnsentText) -> None:
        """Remember the unsent text of a *place*, usually a conversation's id; the next `flush` stores the text."""
        self._waiting[place] = text

    async def flush(self) -> None:
        """Store all texts remembered since the last call. A StoreError is logged, not raised."""
        async with self._saving:
            waiting = dict(self._waiting)
            if not waiting:
                return
            try:
                await self._store.save({place: await self._mark_copies(text) for place, text in waiting.items()})
            except StoreError as error:
                _log.warning("an unsent text is not stored: %s", error)
            for place, text in waiting.items():
                if self._waiting.get(place) is text:
                    del self._waiting[place]

    async def _mark_copies(self, text: UnsentText) -> UnsentText:
        finder = None if self._copy_finder is None else self._copy_finder.created
        if finder is None:
            return text
        queued = [await finder.find_copies(one) for one in text.queued]
        return replace(text, copies=await finder.find_copies(text.text), queued_copies=tuple(queued))

    def note_copies(self, text: str, copies: Sequence[CopiedText]) -> None:
        """Remember the parts of a text that were copied from servers, because the user can edit and send the text."""
        if copies and self._copy_finder is not None:
            self._copy_finder.get().note_copies(text, copies)

    def _note_copies(self, text: UnsentText) -> UnsentText:
        queued = zip_longest(text.queued, text.queued_copies[: len(text.queued)], fillvalue=())
        for one, copies in (*queued, (text.text, text.copies)):
            self.note_copies(str(one), copies)
        return text

    async def load(self, place: str) -> UnsentText:
        """Return the unsent text of a *place*, usually a conversation's id; an empty text if the store fails."""
        if place in self._waiting:
            return self._waiting[place]
        try:
            return self._note_copies(await self._store.load(place))
        except StoreError:
            return UnsentText()

    async def claim_new(self) -> tuple[str, UnsentText]:
        """Return a key for the unsent text of a new conversation, and the text stored for that key by an earlier run.

        The text is empty if no earlier run stored one or if the store fails.
        """
        try:
            place, text = await self._store.claim_new()
        except StoreError:
            return make_new_place(), UnsentText()
        return place, self._note_copies(text)
