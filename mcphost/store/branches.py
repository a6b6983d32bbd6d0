"""Branches of a stored conversation: the messages that lead to a given message, and the branch ends."""

from collections.abc import Sequence
from typing import NamedTuple


class MessageLink(NamedTuple):
    """The numbers of a message and of its predecessor.

    `parent` is 0 if there is no predecessor, and None if it is the message stored just before.
    """

    number: int
    parent: int | None


def trace_branch(links: Sequence[MessageLink], end: int | None) -> list[int]:
    """Return the positions in *links* of the messages from the first to number *end*, oldest first.

    *links* must be sorted by number. An *end* of None means the last message, and 0 means no message. A predecessor
    that is missing or not older ends the branch, so that a damaged file cannot cause an endless loop.
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
    """Return the numbers of the messages without a successor, oldest first."""
    with_successor = {
        links[at - 1].number if link.parent is None and at else link.parent for at, link in enumerate(links)
    }
    return [link.number for link in links if link.number not in with_successor]
