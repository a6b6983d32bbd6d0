"""The point at which a copy of a conversation branches off the original."""

from typing import NamedTuple


class ForkPoint(NamedTuple):
    """The point at which a copy of a conversation branches off the original.

    - `id` is the id of the copy, and `source` the id of the original.
    - `after` is the number of the last copied message in the original.
    - `length` is the number of copied messages.
    """

    id: str
    source: str
    after: int
    length: int
