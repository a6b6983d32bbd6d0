"""Question[A]: what every question to the user has; the kinds of it are in the modules beside this one."""

from typing import ClassVar, Generic, TypeVar

from mcphost.serialization import Struct

A_co = TypeVar("A_co", covariant=True)


class Question(Struct, Generic[A_co], frozen=True, kw_only=True):
    """The base: `server` asks (empty: mcphost itself), `why` says on whose behalf, in one short sentence.

    `account` is the name of the account that is used with the server; "" where nobody is signed in. `number` is the
    same for all that a server asks for one call of ours, and 0 where nothing ties it to one; see CallEnded.
    """

    KIND: ClassVar[str]
    server: str
    why: str
    account: str = ""
    number: int = 0

    def refusal(self) -> A_co:
        """The answer when nobody answers."""
        raise NotImplementedError
