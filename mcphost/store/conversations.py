"""Storage of conversations with their branches and system prompts.

A message is on disk once `append` returns. A conversation is a tree: if the user goes back to an earlier message, a new
branch begins at that message, and the later messages are kept. The current branch ends with the newest message, or with
the message that the user went back to.
"""

import itertools
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio.to_thread

from mcphost.errors import StoreError, UsageError
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.serialization import Struct, encode
from mcphost.store import search_index
from mcphost.store.branches import (
    BODY,
    BRANCHES_QUERY,
    BranchInfo,
    MessageLink,
    find_branch_ends,
    load_links,
    summarize_branch,
    trace_branch,
)
from mcphost.store.compactions import CompactionStore
from mcphost.store.database import DATABASE_ERRORS, Database
from mcphost.store.message_list import MessageList
from mcphost.store.system_prompts import SystemPromptStore
from mcphost.store.valid_rows import BLOB, INTEGER, IS_ID, NUMBER, TEXT, count_damaged, is_id, valid_rows

if TYPE_CHECKING:
    from mcphost.store.manual_calls import ManualCallStore

MAX_TITLE_CHARS = 200
MIN_THREAD_MESSAGES = 500
"""At least this many messages are decoded on a thread; 100,000 would block the event loop for 0.5 s."""
MIN_THREAD_BYTES = 1_000_000
"""Messages of at least this total size are decoded on a thread; 100 MB would block the event loop for 0.1 s."""


class ConversationInfo(Struct, frozen=True):
    """An entry in the list of conversations; times are in seconds since 1970.

    `messages` is the number of messages on all branches, and `is_named` means that the user chose the title.
    """

    id: str
    title: str
    model: str
    messages: int
    created: float
    updated: float
    is_pinned: bool = False
    is_named: bool = False


class StoredMessage(NamedTuple):
    """A message with its number in the conversation, from 1; number 0 marks a draft left by a crash."""

    number: int
    message: Message


class BranchBodies(NamedTuple):
    """The messages of a branch as stored JSON, with their numbers.

    Number 0 marks a draft left behind by a crash.
    """

    numbers: list[int]
    bodies: list[bytes]


class BranchMentions(NamedTuple):
    """The messages of one branch that mention a text; see `ConversationStore.list_mentions`.

    `number` is the number of the branch's last message.
    """

    number: int
    messages: tuple[Message, ...]


class RecordedCall(Struct, frozen=True):
    """A tool call in a stored conversation; declined calls are included, but not calls without any result.

    `at` is the time of the model's message that contains the call, in seconds since 1970.
    """

    conversation: str
    title: str
    at: float
    tool: str
    arguments: dict[str, Any]


# In a damaged file, any column may have a value of any type.
_TITLE = "CASE WHEN typeof(title) = 'text' THEN title ELSE '' END"
_TITLE_QUERY = f"SELECT {_TITLE}, named IS 2 FROM conversations WHERE id = ?"  # noqa: S608 - only constants
_LEAF_QUERY = "SELECT CASE WHEN typeof(leaf) = 'integer' THEN leaf END FROM conversations WHERE id = ?"
_NEWEST_FIRST = f"updated > CAST(strftime('%s', 'now') AS INTEGER) + {search_index.FUTURE_SECONDS}, updated DESC"
"""SQL order of conversations; those dated more than a day ahead, because the clock was wrong, come after all others."""

_CALLS_QUERY = f"""
    SELECT c.id, c.title, m.body FROM messages m JOIN conversations c ON c.id = m.conversation
    WHERE length(m.body) < ?1 AND (instr(m.body, ?2) OR instr(m.body, ?3))
    ORDER BY {_NEWEST_FIRST}, m.seq DESC LIMIT ?4
"""  # noqa: S608 - only constants
_IDS_QUERY = f"SELECT id FROM conversations WHERE {IS_ID.format('id')} ORDER BY {_NEWEST_FIRST}, id LIMIT ?"  # noqa: S608
_MAX_CALL_MESSAGE_BYTES = 256 * 1024
_MAX_CALL_MESSAGES = 1_000
MAX_BRANCHES = 50
_MAX_PREVIEWED_BYTES = 4_000_000
_ADD_CONVERSATION = """
    INSERT INTO conversations (id, title, model, created, updated) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, model = excluded.model
"""
_ADD_MESSAGE = """
    INSERT INTO messages (conversation, seq, body, parent)
    SELECT ?1, coalesce(max(seq), 0) + 1, ?2,
    CASE WHEN ?3 IS NULL THEN (SELECT leaf FROM conversations WHERE id = ?1) ELSE nullif(?3, coalesce(max(seq), 0)) END
    FROM messages WHERE conversation = ?1 RETURNING seq
"""
_KEEP_CURRENT_BRANCH = """
    UPDATE conversations
    SET leaf = coalesce(leaf, (SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ?1)) WHERE id = ?1
"""
RUN_PREFIX = "run: "
"""Prefix of the titles that `mcphost run` gives to conversations."""

IS_TITLED_AS_RUN = f"(substr(c.title, 1, {len(RUN_PREFIX)}) = '{RUN_PREFIX}' AND c.named IS NOT 2)"
"""SQL condition that a conversation `c` has a title given by `mcphost run`, not one that the user chose."""

_IS_RUN = f"({IS_TITLED_AS_RUN} AND c.pinned IS NULL)"
_COUNT_RUNS = f"SELECT count(*) FROM conversations c WHERE {_IS_RUN}"  # noqa: S608 - only constants
_LIST_QUERY = f"""
    SELECT c.id, c.title, c.model, (SELECT count(*) FROM messages m WHERE m.conversation = c.id), c.created, c.updated,
    c.pinned IS NOT NULL, c.named IS 2
    FROM (SELECT * FROM conversations c {{where}} ORDER BY {{order}}{_NEWEST_FIRST}, c.id LIMIT ?) c
    ORDER BY {{order}}{_NEWEST_FIRST}, c.id
"""  # noqa: S608 - only constants; counts only the messages of the conversations that it returns
_LIST_TYPES = (TEXT, TEXT, TEXT, INTEGER, NUMBER, NUMBER, INTEGER, INTEGER)


def read_recent_ids(file: Path, limit: int) -> tuple[str, ...]:
    """Return the ids of the most recently used conversations in the database *file*, newest first, at most *limit*.

    The file is neither created nor changed. Blocks the calling thread. Raises StoreError.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=0.1)) as db:
            return tuple(found for (found,) in db.execute(_IDS_QUERY, (limit,)))
    except DATABASE_ERRORS as error:
        raise StoreError(f"{file} cannot be read: {error}.") from error


def _decode_messages(branch: BranchBodies) -> tuple[StoredMessage, ...]:
    """Decode stored messages; a damaged one is replaced with a message that reports the damage."""
    return tuple(map(StoredMessage, branch.numbers, MessageList(branch.bodies)))


class ConversationStore:
    """Store for conversations; several processes can append to the same one without losing messages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.compactions = CompactionStore(database)
        self.system_prompts = SystemPromptStore(database)

    @cached_property
    def manual_calls(self) -> "ManualCallStore":
        """The store for the tool calls that the user made without the model; its module is imported on first use."""
        from mcphost.store.manual_calls import ManualCallStore

        return ManualCallStore(self._database)

    @property
    def is_in_memory(self) -> bool:
        """Whether conversations are kept only in memory, and are lost when the program ends."""
        return self._database.is_in_memory

    async def append(
        self, conversation_id: str, message: Message, *, title: str, model: str, after: int | None = None
    ) -> int:
        """Add a message to a conversation, creating the conversation if it does not exist. Raises StoreError.

        *after* is the number of the message that the new one follows (0 for none), even if another process has added
        other messages after it. If *after* is None, the new message follows the last message of the current branch. In
        both cases, the current branch then ends with the new message. Returns the number of the new message. A message
        from the model also deletes the draft.

        *title* is the title of a new conversation, and *model* is stored as the conversation's latest model.
        """
        body = encode(message)

        def work(db: sqlite3.Connection) -> int:
            before = db.execute(_TITLE_QUERY, (conversation_id,)).fetchone()
            db.execute(_ADD_CONVERSATION, (conversation_id, title, model, message.at, message.at))
            (number,) = db.execute(_ADD_MESSAGE, (conversation_id, body, after)).fetchone()
            if before is None:
                search_index.add_title(db, conversation_id, title, message.at)
            elif number == 1 and not before[1] and before[0] != title:
                # The conversation has only manual calls, and its title is that of the first of them.
                db.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, conversation_id))
                search_index.replace_title(db, conversation_id, before[0], title)
            search_index.add_message(db, conversation_id, number, message)
            db.execute("UPDATE conversations SET leaf = NULL WHERE id = ? AND leaf IS NOT NULL", (conversation_id,))
            if message.role == "assistant":
                db.execute("DELETE FROM drafts WHERE conversation = ?", (conversation_id,))
            return number

        return await self._database.run(work)

    async def append_to_branch(self, conversation_id: str, message: Message, *, after: int) -> int:
        """Add a message to a branch other than the current one; the current branch does not change.

        *after* is the number of the branch's last message. Returns the number of the new message, or 0 if the
        conversation was deleted. Raises StoreError.
        """
        body = encode(message)

        def work(db: sqlite3.Connection) -> int:
            if not db.execute(_KEEP_CURRENT_BRANCH, (conversation_id,)).rowcount:
                return 0
            (number,) = db.execute(_ADD_MESSAGE, (conversation_id, body, after)).fetchone()
            search_index.add_message(db, conversation_id, number, message)
            return number

        return await self._database.run(work)

    async def list_mentions(self, conversation_id: str, text: str) -> tuple[BranchMentions, ...]:
        """Return the messages whose stored JSON contains the string *text*, grouped by branch.

        The newest branch comes first. Large messages are skipped, and branches without a matching message are omitted.
        Raises StoreError.
        """
        query = "SELECT seq, body FROM messages WHERE conversation = ? AND instr(body, ?) AND length(body) < ?"

        def work(db: sqlite3.Connection) -> tuple[BranchMentions, ...]:
            rows = db.execute(query, (conversation_id, encode(text), _MAX_PREVIEWED_BYTES))
            found = dict(valid_rows(rows, INTEGER, BLOB))
            if not found:
                return ()
            links = load_links(db, conversation_id)
            mentions: list[BranchMentions] = []
            for end in reversed(find_branch_ends(links)[-MAX_BRANCHES:]):
                numbers = (links[at].number for at in trace_branch(links, end))
                decoded = (search_index.decode_message(found[number]) for number in numbers if number in found)
                if messages := tuple(message for message in decoded if message is not None):
                    mentions.append(BranchMentions(end, messages))
            return tuple(mentions)

        return await self._database.run(work)

    async def save_draft(self, conversation_id: str, message: Message | None) -> None:
        """Save the model's unfinished message as a draft that survives a crash; None deletes the draft.

        Raises StoreError.
        """

        def work(db: sqlite3.Connection) -> None:
            if message is None:
                db.execute("DELETE FROM drafts WHERE conversation = ?", (conversation_id,))
            else:
                db.execute(
                    "INSERT INTO drafts VALUES (?, ?) ON CONFLICT (conversation) DO UPDATE SET body = excluded.body",
                    (conversation_id, encode(message)),
                )

        await self._database.run(work)

    async def load(self, conversation_id: str) -> tuple[Message, ...] | None:
        """Return the messages of the current branch without their numbers; see `load_branch`."""
        stored = await self.load_branch(conversation_id)
        return None if stored is None else tuple(message for _, message in stored)

    async def load_branch(self, conversation_id: str) -> tuple[StoredMessage, ...] | None:
        """Return the messages of the current branch, oldest first, followed by the draft if there is one.

        Returns None if the id is unknown. A message that cannot be decoded is replaced with one that says so. Raises
        StoreError.
        """
        branch = await self.load_bodies(conversation_id)
        if branch is None:
            return None
        if len(branch.bodies) < MIN_THREAD_MESSAGES and sum(map(len, branch.bodies)) < MIN_THREAD_BYTES:
            return _decode_messages(branch)
        return await anyio.to_thread.run_sync(_decode_messages, branch, abandon_on_cancel=True)

    async def load_bodies(self, conversation_id: str) -> BranchBodies | None:
        """Return the current branch like `load_branch`, but without decoding the messages. Raises StoreError."""

        def work(db: sqlite3.Connection) -> BranchBodies | None:
            found = db.execute(_LEAF_QUERY, (conversation_id,)).fetchone()
            if found is None:
                return None
            numbers: list[int] = []
            parents: list[int | None] = []
            bodies: list[bytes] = []
            # Row by row: a list of 100,000 rows would trigger a full garbage collection.
            for number, parent, body in db.execute(BRANCHES_QUERY, (conversation_id,)):
                numbers.append(number)
                parents.append(parent)
                bodies.append(body)
            if found[0] is not None or any(parent is not None for parent in parents):
                places = trace_branch(list(map(MessageLink, numbers, parents)), found[0])
                numbers, bodies = [numbers[at] for at in places], [bodies[at] for at in places]
            for (body,) in db.execute(f"SELECT {BODY} FROM drafts WHERE conversation = ?", (conversation_id,)):  # noqa: S608
                numbers.append(0)
                bodies.append(body)
            return BranchBodies(numbers, bodies)

        return await self._database.run(work)

    async def find_last_number(self, conversation_id: str) -> int:
        """Return the number of the newest message on any branch, or 0 if there is none. Raises StoreError."""
        query = "SELECT coalesce(max(seq), 0) FROM messages WHERE conversation = ? AND typeof(seq) = 'integer'"
        return await self._database.run(lambda db: db.execute(query, (conversation_id,)).fetchone()[0])

    async def has_page_results(self, conversation_id: str) -> bool:
        """Return whether results for interactive pages of tools are stored in a conversation. Raises StoreError."""
        query = "SELECT EXISTS (SELECT 1 FROM page_results WHERE conversation = ?)"
        return bool(await self._database.run(lambda db: db.execute(query, (conversation_id,)).fetchone()[0]))

    async def find_title(self, conversation_id: str) -> str:
        """Return the title of a conversation, or "" if the id is unknown. Raises StoreError."""
        found = await self._database.run(lambda db: db.execute(_TITLE_QUERY, (conversation_id,)).fetchone())
        return found[0] if found else ""

    async def load_around(self, conversation_id: str, number: int, count: int) -> tuple[StoredMessage, ...]:
        """Return up to *count* messages around message *number* on the message's branch, oldest first.

        If *number* is 0, return the last messages of the current branch. Large messages are omitted. Raises StoreError.
        """

        def work(db: sqlite3.Connection) -> list[tuple[int, bytes]]:
            found = db.execute(_LEAF_QUERY, (conversation_id,)).fetchone()
            if found is None:
                return []
            links = load_links(db, conversation_id)
            numbers = [links[at].number for at in trace_branch(links, found[0])]
            if number and number not in numbers:
                numbers = [links[at].number for at in trace_branch(links, number)]
            place = numbers.index(number) if number in numbers else len(numbers)
            start = max(0, min(place - count // 2, len(numbers) - count))
            query = f"SELECT seq, {BODY} FROM messages WHERE conversation = ? AND seq = ? AND length(body) < ?"  # noqa: S608
            wanted = numbers[start : start + count]
            bodies = (db.execute(query, (conversation_id, one, _MAX_PREVIEWED_BYTES)).fetchone() for one in wanted)
            return [body for body in bodies if body is not None]

        decoded = ((one, search_index.decode_message(body)) for one, body in await self._database.run(work))
        return tuple(StoredMessage(one, message) for one, message in decoded if message is not None)

    async def rewind(self, conversation_id: str, number: int) -> None:
        """Make message *number* the end of the current branch; 0 makes the branch empty.

        Later messages are kept, and the draft is deleted. Raises StoreError.
        """

        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (number, conversation_id))
            db.execute("DELETE FROM drafts WHERE conversation = ?", (conversation_id,))

        await self._database.run(work)

    async def list_branches(self, conversation_id: str) -> tuple[BranchInfo, ...]:
        """Return all branches except the current one, newest first, at most MAX_BRANCHES. Raises StoreError."""

        def work(db: sqlite3.Connection) -> list[tuple[int, int, bytes, bytes | None]]:
            found = db.execute(_LEAF_QUERY, (conversation_id,)).fetchone()
            links = load_links(db, conversation_id)
            if found is None or not links:
                return []
            current = links[-1].number if found[0] is None else found[0]
            ends = [number for number in find_branch_ends(links) if number != current][-MAX_BRANCHES:]
            return [summarize_branch(db, conversation_id, links, end) for end in reversed(ends)]

        found = await self._database.run(work)
        branches: list[BranchInfo] = []
        for number, count, last_body, user_body in found:
            last, user = (
                search_index.decode_message(last_body),
                search_index.decode_message(user_body) if user_body else None,
            )
            branches.append(BranchInfo(number, count, user.text if user else "", last.at if last else 0.0))
        return tuple(branches)

    async def fork(
        self, conversation_id: str, numbers: Sequence[int], *, new_id: str, at: float, mark: str = "copy"
    ) -> None:
        """Copy the messages with these *numbers* to a new conversation, together with the system prompt.

        *new_id* is the id of the new conversation, and *at* is its creation time in seconds since 1970. Manual calls,
        results for interactive pages of tools and the index of reusable results are copied as well. The title of the
        copy ends with *mark* in parentheses, and with a number if a conversation already has this title. Raises
        StoreError.
        """
        from mcphost.store.manual_calls import copy_manual_calls
        from mcphost.store.page_results import copy_page_results
        from mcphost.store.reusable_results import copy_recorded_results

        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO conversations (id, title, model, created, updated)"
                " SELECT ?2, ?4, model, ?3, ?3 FROM conversations WHERE id = ?1",
                (conversation_id, new_id, at, _title_copy(db, conversation_id, mark)),
            )
            db.executemany(
                "INSERT INTO messages (conversation, seq, body)"
                " SELECT ?, ?, body FROM messages WHERE conversation = ? AND seq = ?",
                ((new_id, at, conversation_id, number) for at, number in enumerate(numbers, 1)),
            )
            db.execute(
                "INSERT INTO system_prompts (conversation, text, at) SELECT ?2, text, ?3 FROM system_prompts"
                " WHERE conversation = ?1 ORDER BY number DESC LIMIT 1",
                (conversation_id, new_id, at),
            )
            copy_manual_calls(db, conversation_id, new_id, {number: place for place, number in enumerate(numbers, 1)})
            copy_recorded_results(db, conversation_id, new_id)
            copy_page_results(db, conversation_id, new_id)
            search_index.add_pending(db, new_id)

        await self._database.run(work)

    async def list_recent(
        self, limit: int = 100, *, pinned_first: bool = False, with_runs: bool = True
    ) -> tuple[ConversationInfo, ...]:
        """Return the most recently updated conversations, newest first, at most *limit*. Raises StoreError.

        If *pinned_first* is true, pinned conversations come before all others. If *with_runs* is false,
        conversations of `mcphost run` are left out, unless they were renamed or pinned.
        """
        where = "" if with_runs else f"WHERE NOT {_IS_RUN}"
        return await self._rows(where, (limit,), "c.pinned IS NULL, " if pinned_first else "")

    async def count_runs(self) -> int:
        """Return the number of conversations started by `mcphost run` that were neither renamed nor pinned.

        Raises StoreError.
        """
        return (await self._database.run(lambda db: db.execute(_COUNT_RUNS).fetchone()))[0]

    async def find_by_prefix(self, prefix: str) -> tuple[ConversationInfo, ...]:
        """Return the conversations whose ids begin with *prefix*, newest first, at most 100. Raises StoreError."""
        return await self._rows("WHERE substr(c.id, 1, length(?1)) = ?1", (prefix, 100))

    async def rename(self, conversation_id: str, title: str) -> None:
        """Set the title of a conversation to *title*, which the user chose.

        Raises UsageError for an empty title or an unknown conversation, and StoreError if the title cannot be written.
        """
        title = " ".join(title.split())[:MAX_TITLE_CHARS]
        if not title:
            raise UsageError("A title needs at least one character.")

        def work(db: sqlite3.Connection) -> None:
            row = db.execute(_TITLE_QUERY, (conversation_id,)).fetchone()
            if row is None:
                raise UsageError(f"There is no conversation {conversation_id!r}.", "List them with: mcphost sessions")
            db.execute("UPDATE conversations SET title = ?, named = 2 WHERE id = ?", (title, conversation_id))
            search_index.replace_title(db, conversation_id, row[0], title)

        await self._database.run(work)

    async def change_title(self, conversation_id: str, change: Callable[[str], str]) -> str:
        """Replace a conversation's title with the result of `change(title)`, unless the user chose the title.

        Returns the title, or "" if the conversation was deleted. Raises StoreError.
        """

        def work(db: sqlite3.Connection) -> str:
            title, is_named = db.execute(_TITLE_QUERY, (conversation_id,)).fetchone() or ("", True)
            changed = title if is_named else change(title)
            if changed != title:
                db.execute("UPDATE conversations SET title = ? WHERE id = ?", (changed, conversation_id))
                search_index.replace_title(db, conversation_id, title, changed)
            return changed

        return await self._database.run(work)

    async def remove_run_prefix(self, conversation_id: str) -> str:
        """Remove the prefix of `mcphost run` (RUN_PREFIX) from a title, and return the title. Raises StoreError."""
        return await self.change_title(conversation_id, lambda title: title.removeprefix(RUN_PREFIX))

    async def set_pinned(self, conversation_id: str, *, is_pinned: bool) -> None:
        """Pin a conversation to the top of the conversation list, or unpin it. Raises StoreError."""
        pinned = time.time() if is_pinned else None

        def work(db: sqlite3.Connection) -> None:
            db.execute("UPDATE conversations SET pinned = ? WHERE id = ?", (pinned, conversation_id))

        await self._database.run(work)

    async def list_calls(self, server: str, limit: int) -> tuple[RecordedCall, ...]:
        """Return at most *limit* stored calls to a server's tools, newest first. Raises StoreError.

        Messages over 256 kB are skipped.
        """
        values = (_MAX_CALL_MESSAGE_BYTES, b'"tool_use"', b'"tool_return"', _MAX_CALL_MESSAGES)

        def work(db: sqlite3.Connection) -> tuple[RecordedCall, ...]:
            calls: list[RecordedCall] = []
            tools: dict[tuple[str, str], str] = {}
            # Rows are newest first, so a result comes before its call; only the result contains the server.
            for conversation_id, title, body in valid_rows(db.execute(_CALLS_QUERY, values), TEXT, TEXT, BLOB):
                message = search_index.decode_message(body)
                for part in message.parts if message else ():
                    if isinstance(part, ToolReturnPart) and part.server == server:
                        tools[conversation_id, part.use_id] = part.tool
                for use in reversed(message.tool_uses if message else ()):
                    tool = tools.get((conversation_id, use.id))
                    if message and tool is not None and use.arguments is not None:
                        calls.append(RecordedCall(conversation_id, title, message.at, tool, use.arguments))
            latest = time.time() + search_index.FUTURE_SECONDS
            return tuple(sorted(calls, key=lambda call: (call.at > latest, -call.at))[:limit])

        return await self._database.run(work)

    async def _rows(self, where: str, values: tuple[object, ...], order: str = "") -> tuple[ConversationInfo, ...]:
        query = _LIST_QUERY.format(where=where, order=order)

        def work(db: sqlite3.Connection) -> tuple[ConversationInfo, ...]:
            rows = list(valid_rows(db.execute(query, values), *_LIST_TYPES))
            proper = [row for row in rows if is_id(row[0])]
            count_damaged(db, len(rows) - len(proper))
            return tuple(
                ConversationInfo(conversation_id, title, model, count, created, updated, bool(pinned), bool(named))
                for conversation_id, title, model, count, created, updated, pinned, named in proper
            )

        return await self._database.run(work)


def _title_copy(db: sqlite3.Connection, conversation_id: str, mark: str) -> str:
    """Return a title for a copy of a conversation; no other conversation has this title yet.

    The title ends with *mark* in parentheses. If the conversation is itself a copy, the new title is based on
    the title of its original.
    """
    row = db.execute(_TITLE_QUERY, (conversation_id,)).fetchone()
    title = row[0] if row else ""
    base, opened, end = title.rpartition(f" ({mark}")
    if opened and (end == ")" or (end.startswith(" ") and end.endswith(")") and end[1:-1].isdecimal())):
        title = base
    title = title.removeprefix(RUN_PREFIX)  # the user continues it, so the history need not hide it
    titles = (f"{title} ({mark}{f' {number}' if number > 1 else ''})" for number in itertools.count(1))
    exists = "SELECT 1 FROM conversations WHERE title = ?"
    return next(one for one in titles if db.execute(exists, (one,)).fetchone() is None)
