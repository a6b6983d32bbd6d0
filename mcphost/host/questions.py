"""Question[A] and every question with its answer type and its refusal.

A question says who asks and why; a front end shows one at a time, first come first shown. An answer that widens
what may happen later (`AllowSession`, `AllowAlways`) is a type of its own.
"""

from typing import Any, ClassVar, Generic, TypeVar

from mcphost.data import Data
from mcphost.protocol.tools import ToolAnnotations

A_co = TypeVar("A_co", covariant=True)


class Question(Data, Generic[A_co], frozen=True, kw_only=True):
    """The base: `server` asks (empty: mcphost itself), `why` says on whose behalf, in one short sentence."""

    KIND: ClassVar[str]
    server: str
    why: str

    def refusal(self) -> A_co:
        """The answer when nobody answers."""
        raise NotImplementedError


class AllowOnce(Data, frozen=True):
    """Run this call; `arguments` replaces what the model wrote when the user edited it."""

    arguments: dict[str, Any] | None = None


class AllowSession(Data, frozen=True):
    """Run this call and every later one of this tool until mcphost ends."""


class AllowAlways(Data, frozen=True):
    """Run this call and every later one of this tool, as long as server and definition stay what they are."""


class Deny(Data, frozen=True):
    """Do not run it; `reason` is for the model to read."""

    reason: str = ""


ToolVerdict = AllowOnce | AllowSession | AllowAlways | Deny


class ApproveTool(Question[ToolVerdict], frozen=True, kw_only=True):
    """May this call run? Shown complete: wire names, all arguments, what the server claims about the tool."""

    KIND: ClassVar[str] = "approve_tool"
    call: str
    tool: str
    arguments: dict[str, Any]
    description: str = ""
    claims: ToolAnnotations = ToolAnnotations()
    first_use: bool = True
    drifted: bool = False

    def refusal(self) -> ToolVerdict:
        return Deny()


class TrustOnce(Data, frozen=True):
    """Use the server in this run."""


class TrustAlways(Data, frozen=True):
    """Use the server as long as its command or address stays what it is."""


class DoNotTrust(Data, frozen=True):
    """Do not start or reach it."""


TrustVerdict = TrustOnce | TrustAlways | DoNotTrust


class TrustServer(Question[TrustVerdict], frozen=True, kw_only=True):
    """May this server be started or reached? Shown untruncated; values of env and headers are never shown.

    `changed` is what an earlier approval covered, when there was one.
    """

    KIND: ClassVar[str] = "trust_server"
    command: tuple[str, ...] = ()
    cwd: str = ""
    url: str = ""
    env_names: tuple[str, ...] = ()
    header_names: tuple[str, ...] = ()
    file: str = ""
    changed: str = ""

    def refusal(self) -> TrustVerdict:
        return DoNotTrust()


class ContinueTurn(Question[bool], frozen=True, kw_only=True):
    """The model used up its rounds of tool calls; may it go on for as many again?"""

    KIND: ClassVar[str] = "continue_turn"
    rounds: int

    def refusal(self) -> bool:
        return False


AnyQuestion = ApproveTool | TrustServer | ContinueTurn
