"""Branches of a stored conversation, whose messages form a tree."""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from mcphost.serialization import Struct
from mcphost.store import search_index

_MAX_SUMMARIZED_MESSAGES = 200
# In a damaged file, the rows may be those of another table: only a number can be one of a message.
_LINKS = """
    SELECT seq, CASE WHEN typeof(parent) = 'integer' THEN parent END, {column} FROM messages
    WHERE conversation = ? AND typeof(seq) = 'integer' ORDER BY seq
"""
BODY = "CASE WHEN typeof(body) = 'blob' THEN body ELSE x'' END"
"""SQL expression for the body of a message or draft; the result is empty if the body is damaged."""

BRANCHES_QUERY = _LINKS.format(column=BODY)
_LINKS_QUERY = _LINKS.format(column="NULL")


class BranchInfo(Struct, frozen=True):
    """Summary of a branch other than the current branch of a conversation.

    - `number`: the number of the last message on the branch.
    - `messages`: the number of messages on the branch.
    - `text`: the text of the last user message on the branch.
    - `at`: the time of the last message in seconds since 1970.
    """

    number: int
    messages: int
    text: str
    at: float


class MessageLink(NamedTuple):
    """The number of a message, and the number of its predecessor in the conversation.

    `parent` is 0 if there is no predecessor. It is None if the predecessor was not recorded, because it is the message
    that was stored just before.
    """

    number: int
    parent: int | None


def load_links(db: sqlite3.Connection, conversation_id: str) -> list[MessageLink]:
    """Return the links of all messages of a conversation, oldest first."""
    return [MessageLink(number, parent) for number, parent, _ in db.execute(_LINKS_QUERY, (conversation_id,))]


def trace_branch(links: Sequence[MessageLink], end: int | None) -> list[int]:
    """Return the indexes in *links* of the messages on a branch, oldest first.

    *end* is the number of the last message on the branch. If it is None, the branch ends with the last message in
    *links*; if it is 0, the branch is empty. *links* must be sorted by number. The branch begins at a message whose
    predecessor is missing or not older, so that a damaged file cannot cause an endless loop.
    """
    if end is None and all(link.parent is None for link in links):
        return list(range(len(links)))
    positions = {link.number: at for at, link in enumerate(links)}
    at = len(links) - 1 if end is None else positions.get(end, -1)
    found: list[int] = []
    while at >= 0:
        found.append(at)
        parent = links[at].parent
        before = at - 1 if parent is None else positions.get(parent, -1)
        at = before if before < at else -1
    return found[::-1]


def find_branch_ends(links: Sequence[MessageLink]) -> list[int]:
    """Return the numbers of the messages at the ends of branches, oldest first."""
    with_successor = {
        links[at - 1].number if link.parent is None and at else link.parent for at, link in enumerate(links)
    }
    return [link.number for link in links if link.number not in with_successor]


def summarize_branch(
    db: sqlite3.Connection, conversation_id: str, links: Sequence[MessageLink], end: int
) -> tuple[int, int, bytes, bytes | None]:
    """Return *end*, the length of the branch, the last message on the branch, and the last one from the user.

    *end* is the number of the last message on the branch. *links* describes all messages of the conversation. Both
    messages are returned as JSON. The message from the user is None if none was found near the end of the branch.
    """
    positions = trace_branch(links, end)
    last_body: bytes = b""
    for at in reversed(positions[-_MAX_SUMMARIZED_MESSAGES:]):
        query = "SELECT body, instr(substr(body, 1, 64), ?) FROM messages WHERE conversation = ? AND seq = ?"
        row = db.execute(query, (b'"role":"user"', conversation_id, links[at].number)).fetchone()
        body, is_user = row or (b"", False)
        last_body = last_body or body
        message = search_index.decode_message(body) if is_user else None
        if message is not None and message.late_result is None and not message.is_automatic:
            return end, len(positions), last_body, body
    return end, len(positions), last_body, None
