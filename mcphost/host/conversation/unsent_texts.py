"""Texts that the user typed but did not send, remembered for each conversation and stored from time to time."""

import logging

from mcphost.errors import StoreError
from mcphost.store.database import Database
from mcphost.store.unsent_texts import UnsentText, UnsentTextStore, make_new_place

_log = logging.getLogger(__name__)


class UnsentTexts:
    """Unsent texts of input fields, keyed by place: the id of a conversation, or a key from `claim_new` for a new one.

    If the store fails, the texts are lost when mcphost exits, and the failure is logged.
    """

    def __init__(self, database: Database) -> None:
        self._store = UnsentTextStore(database)
        self._waiting: dict[str, UnsentText] = {}

    def keep(self, place: str, text: UnsentText) -> None:
        """Remember the unsent text of a place, such as a conversation; the next `flush` stores it."""
        self._waiting[place] = text

    async def flush(self) -> None:
        """Store all texts remembered since the last call. A StoreError is logged, not raised.

        Cancellation may lose texts that are not yet stored.
        """
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        try:
            await self._store.save(waiting)
        except StoreError as error:
            _log.warning("an unsent text is not stored: %s", error)

    async def load(self, place: str) -> UnsentText:
        """Return the unsent text of a place, such as a conversation; an empty text if the store fails."""
        if place in self._waiting:
            return self._waiting[place]
        try:
            return await self._store.load(place)
        except StoreError:
            return UnsentText()

    async def claim_new(self) -> tuple[str, UnsentText]:
        """Return a place for the unsent text of a new conversation, and the text that an earlier run left there.

        The text is empty if there is none or the store fails.
        """
        try:
            return await self._store.claim_new()
        except StoreError:
            return make_new_place(), UnsentText()
