"""The question for a client id at authorization servers without dynamic registration."""

from typing import ClassVar

from mcphost.host.questions.question import Question
from mcphost.serialization import Struct


class EnteredClient(Struct, frozen=True):
    """The client id, and secret if any, of a registration that the user made."""

    client_id: str
    client_secret: str = ""

    def __repr__(self) -> str:
        return "EnteredClient(…)"


class DeclineClient(Struct, frozen=True):
    """The user has no client id; the sign-in ends."""


ClientVerdict = EnteredClient | DeclineClient


class EnterClientId(Question[ClientVerdict], frozen=True, kw_only=True):
    """The question for mcphost's client id at *issuer*, which has no dynamic registration.

    `note` is the reason; the user registers a client there for `redirect_uri`.
    """

    KIND: ClassVar[str] = "enter_client"
    issuer: str
    redirect_uri: str
    note: str = ""

    def refusal(self) -> ClientVerdict:
        """Return the answer that refuses."""
        return DeclineClient()
