"""The point at which a copy of a conversation branches off the original."""

from typing import NamedTuple


class ForkPoint(NamedTuple):
    """The point at which a copy of a conversation branches off the original, with the ids of both.

    `id` is the id of the copy, and `source` is the id of the original. `after` is the number of the last copied
    message in the original, and `length` is the number of copied messages.
    """

    id: str
    source: str
    after: int
    length: int
