"""The base class of all questions to the user; the other modules here define the kinds."""

from typing import ClassVar, Generic, TypeVar

from mcphost.serialization import Struct

A_co = TypeVar("A_co", covariant=True)


class Question(Struct, Generic[A_co], frozen=True, kw_only=True):
    """A question of `server` ("" is mcphost); `why` is the reason in one short phrase.

    `account` is the account used with the server, "" when nobody is signed in. `number` is the same for all requests
    that belong to one call, 0 without a call; see CallEnded.
    """

    KIND: ClassVar[str]
    server: str
    why: str
    account: str = ""
    number: int = 0

    def refusal(self) -> A_co:
        """Return the answer to use when nobody answers."""
        raise NotImplementedError
