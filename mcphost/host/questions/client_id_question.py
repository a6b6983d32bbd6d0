"""The question for a client id, where an authorization server registers no programs by itself."""

from typing import ClassVar

from mcphost.host.questions.question import Question
from mcphost.serialization import Struct


class EnteredClient(Struct, frozen=True):
    """The client id of a registration that the user made by hand, and its secret if it has one."""

    client_id: str
    client_secret: str = ""

    def __repr__(self) -> str:
        return "ClientEntered(…)"


class DeclineClient(Struct, frozen=True):
    """There is none; do not sign in."""


ClientVerdict = EnteredClient | DeclineClient


class EnterClientId(Question[ClientVerdict], frozen=True, kw_only=True):
    """`issuer` registers no programs (`note`): which client id has mcphost there, made by hand for `redirect_uri`?"""

    KIND: ClassVar[str] = "enter_client"
    issuer: str
    redirect_uri: str
    note: str = ""

    def refusal(self) -> ClientVerdict:
        return DeclineClient()
