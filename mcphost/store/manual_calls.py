"""Storage of tool calls that the user made without the model, with their results.

Each call belongs to a conversation, but is never part of a request to the model.
"""

import sqlite3
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

from mcphost.llm.messages import ImagePart
from mcphost.serialization import Struct, decode_or_none, encode, replace
from mcphost.store import search_index
from mcphost.store.database import Database
from mcphost.store.valid_rows import BLOB, INTEGER, valid_rows

if TYPE_CHECKING:
    from mcphost.store.page_results import StoredPageCall

MAX_CALLS = 500
"""Maximum number of manual calls that are kept for a conversation, the newest ones."""
MAX_TEXT_CHARS = 1_000_000
MAX_BYTES = 8_000_000
"""Maximum size of a stored call; a larger one is stored without its images, or without its arguments."""
MAX_TOTAL_BYTES = 40_000_000
"""Maximum size of all manual calls of a conversation; the oldest ones are deleted first."""
_ADD_CONVERSATION = """
    INSERT INTO conversations (id, title, model, created, updated) VALUES (?1, ?2, '', ?3, ?3) ON CONFLICT DO NOTHING
"""
_ADD_CALL = """
    INSERT INTO manual_calls (conversation, after, body)
    SELECT id, ?2, ?3 FROM conversations WHERE id = ?1
"""
_DELETE_OLDEST = """
    DELETE FROM manual_calls WHERE number IN (
        SELECT number FROM (
            SELECT number, row_number() OVER newest AS place, sum(length(body)) OVER newest AS total
            FROM manual_calls WHERE conversation = ? WINDOW newest AS (ORDER BY number DESC)
        ) WHERE place > ? OR total > ?
    )
"""


class StoredManualCall(Struct, frozen=True):
    """A tool call that the user made without the model, and its result.

    - `outcome`: "ok", "error" (the tool reported an error or its result is invalid), "failed" (the call did not return
      a result) or "stopped" (the user cancelled the call).
    - `text`, `images`: shown to the user.
    - `at`: the time of the result in seconds since 1970.
    - `seconds`: the duration of the call.
    - `after`: the number of the stored message that the call follows, or 0 if it precedes all messages.
    - `model_text`: the text that the model may receive, or None if it is the same as `text`.
    - `user_images`: the indexes of the images that the model may not receive.
    - `target`: see `Message.servers`.
    - `page`: the id of the call in PageResultStore if the tool has an interactive page, otherwise "".
    """

    server: str
    tool: str
    arguments: dict[str, Any]
    outcome: str
    text: str
    seconds: float = 0.0
    at: float = 0.0
    images: tuple[ImagePart, ...] = ()
    after: int = 0
    model_text: str | None = None
    user_images: tuple[int, ...] = ()
    target: str = ""
    page: str = ""


class AddManualCallFn(Protocol):
    """Function that adds a finished manual call to a conversation."""

    def __call__(self, call: StoredManualCall, page: "StoredPageCall | None" = None, /) -> str:
        """Add the call, and return the id of the conversation.

        If the tool has an interactive page, *page* contains the call with the result that the page receives.
        """
        ...


class ManualCallStore:
    """Store for the user's tool calls in conversations; every method may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(
        self, conversation_id: str, call: StoredManualCall, page: "StoredPageCall | None" = None, *, title: str = ""
    ) -> None:
        """Store a call; do nothing if the conversation was deleted. Very long calls are truncated.

        If the tool has an interactive page, *page* contains the call with the result that the page receives. If *title*
        is not "" and the conversation does not exist, the conversation is created with this title.
        """
        body, page_body = _encode(call), encode(page) if page is not None else b""

        def work(db: sqlite3.Connection) -> None:
            if title and db.execute(_ADD_CONVERSATION, (conversation_id, title, call.at)).rowcount:
                search_index.add_title(db, conversation_id, title, call.at)
            if db.execute(_ADD_CALL, (conversation_id, call.after, body)).rowcount:
                db.execute(_DELETE_OLDEST, (conversation_id, MAX_CALLS, MAX_TOTAL_BYTES))
                db.execute(
                    "UPDATE conversations SET updated = max(updated, ?) WHERE id = ?", (call.at, conversation_id)
                )
                if page_body:
                    from mcphost.store.page_results import add_page_result  # not needed to start

                    add_page_result(db, conversation_id, call.page, page_body, call.at)

        await self._database.run(work)

    async def load(self, conversation_id: str, numbers: Collection[int]) -> tuple[StoredManualCall, ...]:
        """Return the calls that follow the messages with these *numbers*, and those before all messages.

        The oldest call comes first. Calls that cannot be decoded are omitted.
        """
        query = "SELECT after, body FROM manual_calls WHERE conversation = ? ORDER BY number"
        rows = await self._database.run(
            lambda db: list(valid_rows(db.execute(query, (conversation_id,)), INTEGER, BLOB))
        )
        known = {0, *numbers} if rows else set[int]()
        decoded = ((after, _decode(body)) for after, body in rows if after in known)
        return tuple(replace(call, after=after) for after, call in decoded if call is not None)


def copy_manual_calls(db: sqlite3.Connection, source: str, target: str, places: dict[int, int]) -> None:
    """Copy the calls of the conversation *source* to *target*.

    *places* maps the number of each copied message to its number in the copy. A call that follows a message that was
    not copied is left out.
    """
    query = "SELECT after, body FROM manual_calls WHERE conversation = ? ORDER BY number"
    places = {0: 0, **places}
    for after, body in list(valid_rows(db.execute(query, (source,)), INTEGER, BLOB)):
        if after in places:
            db.execute(_ADD_CALL, (target, places[after], body))


def _encode(call: StoredManualCall) -> bytes:
    if call.model_text is None:
        call = replace(call, text=_shorten(call.text, MAX_TEXT_CHARS))
    else:
        text, model_text = (_shorten(one, MAX_TEXT_CHARS // 2) for one in (call.text, call.model_text))
        call = replace(call, text=text, model_text=model_text)
    body = encode(call)
    if len(body) > MAX_BYTES:
        body = encode(replace(call, images=()))
    return body if len(body) <= MAX_BYTES else encode(replace(call, images=(), arguments={}))


def _shorten(text: str, limit: int) -> str:
    hidden, half = len(text) - limit, limit // 2
    return f"{text[:half]}\n[… {hidden:,} characters …]\n{text[-half:]}" if hidden > 0 else text


def _decode(body: bytes) -> StoredManualCall | None:
    return decode_or_none(body, StoredManualCall)
