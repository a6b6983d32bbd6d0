"""Storage for the system prompts of conversations."""

import sqlite3

from mcphost.store.database import Database
from mcphost.store.valid_rows import TEXT, valid_rows

MAX_STORED = 20
"""Maximum number of system prompts that are kept for a conversation, the newest ones."""


class SystemPromptStore:
    """Store for the system prompts of conversations; every method may raise StoreError.

    An empty string means that the configured system prompt is used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, conversation_id: str, text: str) -> None:
        """Store a new system prompt for a conversation; it replaces the one in use."""

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO system_prompts (conversation, text, at) VALUES (?, ?, unixepoch())",
                (conversation_id, text),
            )
            db.execute(
                "DELETE FROM system_prompts WHERE conversation = ?1 AND number NOT IN"
                " (SELECT number FROM system_prompts WHERE conversation = ?1 ORDER BY number DESC LIMIT ?2)",
                (conversation_id, MAX_STORED),
            )

        await self._database.run(work)

    async def load(self, conversation_id: str) -> tuple[str, ...]:
        """Return the conversation's system prompts, oldest first; the last one is in use."""

        def work(db: sqlite3.Connection) -> tuple[str, ...]:
            query = "SELECT text FROM system_prompts WHERE conversation = ? ORDER BY number"
            return tuple(text for (text,) in valid_rows(db.execute(query, (conversation_id,)), TEXT))

        return await self._database.run(work)

    async def remove_last(self, conversation_id: str) -> None:
        """Remove the system prompt in use, so that the previous one is used again."""
        query = (
            "DELETE FROM system_prompts WHERE number = (SELECT max(number) FROM system_prompts WHERE conversation = ?)"
        )
        await self._database.run(lambda db: db.execute(query, (conversation_id,)))
