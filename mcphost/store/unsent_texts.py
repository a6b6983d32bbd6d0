"""Storage of unsent text in the input field, separately for each conversation.

A new conversation that has no id yet is stored under a temporary key.
"""

import os
import secrets
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress

from mcphost.llm.messages import CopiedText, Part
from mcphost.serialization import Struct, decode_or_none, encode, replace
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, INTEGER, TEXT, first_valid, valid_rows

NEW_PREFIX = "new-"
MAX_BYTES = 4_000_000
_MAX_NEW = 20
_SAVE = """
    INSERT INTO unsent_texts (place, body, owner, at) VALUES (?, ?, ?, ?)
    ON CONFLICT (place) DO UPDATE SET body = excluded.body, owner = excluded.owner, at = excluded.at
"""


class UnsentText(Struct, frozen=True):
    """The unsent text in the input field, with the queued messages and attachments.

    - `origin`: "typed" if the user typed the text, "inserted" if the user entered it in another way, or "mixed".
    - `source`: the first name in `sources`; early versions stored only this name.
    - `queued`: the texts of the queued messages.
    - `attachments`: the attachments of the queued messages, followed by those of the text.
    - `sources`: the names of the servers whose prompts were inserted into the text or a queued message.
    - `copies`: the parts of the text that were copied from a server.
    - `queued_copies`: for each queued message, the parts of its text that were copied from a server.
    - `servers`: pairs of the name and target of the servers in `sources` (see `Message.servers`). In texts stored by
      early versions, `servers` is empty.
    """

    text: str = ""
    origin: str = "typed"
    source: str = ""
    queued: tuple[str, ...] = ()
    attachments: tuple[Part, ...] = ()
    sources: tuple[str, ...] = ()
    copies: tuple[CopiedText, ...] = ()
    queued_copies: tuple[tuple[CopiedText, ...], ...] = ()
    servers: tuple[tuple[str, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not (self.text or self.queued or self.attachments)


def make_new_place() -> str:
    """Return a new key for the unsent text of a conversation that has no id yet."""
    return f"{NEW_PREFIX}{secrets.token_hex(6)}"


class UnsentTextStore:
    """Store for unsent text, keyed by *place*: a conversation id, or a key from `make_new_place`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, texts: Mapping[str, UnsentText]) -> None:
        """Store the unsent text of each place; an empty text deletes the stored one. Raises StoreError.

        The attachments are omitted if a text would take more than 4 MB together with its attachments.
        """
        bodies = {place: None if text.is_empty else _encode(text) for place, text in texts.items()}

        def work(db: sqlite3.Connection) -> None:
            for place, body in bodies.items():
                if body is None:
                    db.execute("DELETE FROM unsent_texts WHERE place = ?", (place,))
                else:
                    db.execute(_SAVE, (place, body, os.getpid(), time.time()))

        await self._database.run(work)

    async def load(self, place: str) -> UnsentText:
        """Return the unsent text of a place. Raises StoreError.

        The result is empty if no text is stored or the stored text is damaged.
        """
        row = await self._database.run(
            lambda db: first_valid(db.execute("SELECT body FROM unsent_texts WHERE place = ?", (place,)), BLOB)
        )
        return UnsentText() if row is None else _decode(row[0])

    async def claim_new(self) -> tuple[str, UnsentText]:
        """Take over the newest unsent text that a process left behind for a new conversation when it exited.

        Returns the key under which the text is stored, and the text. If no process left a text behind, returns a new
        key and an empty UnsentText. Raises StoreError.
        """

        def work(db: sqlite3.Connection) -> tuple[str, bytes] | None:
            found = db.execute(
                "SELECT place, body, owner FROM unsent_texts WHERE substr(place, 1, ?) = ? ORDER BY at DESC",
                (len(NEW_PREFIX), NEW_PREFIX),
            )
            rows = list(valid_rows(found, TEXT, BLOB, INTEGER))
            for place, _, _ in rows[_MAX_NEW:]:
                db.execute("DELETE FROM unsent_texts WHERE place = ?", (place,))
            free = next(((place, body) for place, body, owner in rows if not _is_running(owner)), None)
            if free is not None:
                db.execute("UPDATE unsent_texts SET owner = ? WHERE place = ?", (os.getpid(), free[0]))
            return free

        found = await self._database.run(work)
        return (make_new_place(), UnsentText()) if found is None else (found[0], _decode(found[1]))


def _is_running(owner: int) -> bool:
    if owner == os.getpid():
        return True
    with suppress(ProcessLookupError, OverflowError):
        try:
            os.kill(owner, 0)
        except PermissionError:
            return True
        return True
    return False


def _encode(text: UnsentText) -> bytes:
    body = encode(text)
    if len(body) > MAX_BYTES:
        body = encode(replace(text, attachments=()))
    return body if len(body) <= MAX_BYTES else encode(replace(text, text=text.text[: MAX_BYTES // 8], attachments=()))


def _decode(body: bytes) -> UnsentText:
    return decode_or_none(body, UnsentText) or UnsentText()
