"""What the user wrote and did not send: kept at once, stored a moment later on a thread, and restored."""

import logging

from mcphost.errors import StoreError
from mcphost.store.database import Database
from mcphost.store.unsent import UnsentText, UnsentTextStore, make_new_place

_log = logging.getLogger(__name__)


class UnsentTexts:
    """Unsent texts by place; a store that fails loses them at the end of the program, and the log says so."""

    def __init__(self, database: Database) -> None:
        self._store = UnsentTextStore(database)
        self._waiting: dict[str, UnsentText] = {}

    def keep(self, place: str, text: UnsentText) -> None:
        """Remember the text of a place for the next `flush`."""
        self._waiting[place] = text

    async def flush(self) -> None:
        """Store what was kept since the last call. Raises only CancelledError."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        try:
            await self._store.save(waiting)
        except StoreError as error:
            _log.warning("an unsent text is not stored: %s", error)

    async def load(self, place: str) -> UnsentText:
        """Return the text of a conversation, an empty one if the store fails."""
        if place in self._waiting:
            return self._waiting[place]
        try:
            return await self._store.load(place)
        except StoreError:
            return UnsentText()

    async def claim_new(self) -> tuple[str, UnsentText]:
        """Return a place for a new conversation, with the text that an ended program left there, if any."""
        try:
            return await self._store.claim_new()
        except StoreError:
            return make_new_place(), UnsentText()
