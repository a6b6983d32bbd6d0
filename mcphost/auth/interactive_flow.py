"""What both ways to sign in share: what is sought, where it is, the person who is asked, and how they say no."""

from enum import StrEnum
from shlex import quote
from typing import Any

from mcphost.auth.client_identity import Introduction
from mcphost.auth.discovery import IssuerDocument, Resource
from mcphost.auth.jwt_proofs import Signer
from mcphost.auth.oauth_http import SECONDS as LONGEST
from mcphost.auth.oauth_http import Requests
from mcphost.auth.sign_in_target import Target
from mcphost.auth.sign_in_warnings import sign_in_warnings
from mcphost.auth.token_store import Keep
from mcphost.auth.user_interaction import NotSignedIn, Person, Progress, Tell, Terms
from mcphost.serialization import Struct, replace


class Step(StrEnum):
    """Where a sign-in is."""

    RESOURCE = "asking the server who signs for it"
    ISSUER = "asking the authorization server what it can do"
    CLIENT = "introducing mcphost to the authorization server"
    PERSON = "waiting for you"
    CODE = "exchanging the code for a token"
    DONE = "signed in"


FOREIGN_ANSWER = "an answer that does not belong to this sign-in (its state is missing or wrong) came and was not used"


class OtherWay(Exception):
    """The person wants a code instead of a browser, or a browser instead of a code."""


class Sought(Struct, frozen=True):
    """Which rights to what are sought, and who gives them; `document` is what the issuer says of itself."""

    resource: Resource
    document: IssuerDocument
    issuer: str
    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Sought({self.issuer!r})"


class Attended:
    """One sign-in that a person attends; `step` says where it is, and `tell` hears of it."""

    def __init__(self, target: Target, requests: Requests, keep: Keep, person: Person, tell: Tell) -> None:
        self.step = Step.RESOURCE
        self.target = target
        self.requests = requests
        self.introduction = Introduction(target, requests, keep, person)
        self.signer: Signer | None = None
        self.note = ""
        """What was said against the way that was tried before."""
        self.is_known = False
        """Whether the authorization server was told of us earlier, and may have forgotten that."""
        self._has_foreign_answer = False
        self._keep = keep
        self._person = person
        self._tell = tell

    def at(self, step: Step, **more: Any) -> None:
        """It is there now; `more` are other fields of Progress."""
        self.step = step
        seconds = LONGEST if step in (Step.RESOURCE, Step.ISSUER, Step.CLIENT, Step.CODE) else 0.0
        progress = Progress(server=self.target.server, account=self.target.account, step=step.name.lower(),
                            text=step.value, seconds=seconds)  # fmt: skip
        self._tell(replace(progress, **more))

    async def ask(self, sought: Sought, url: str, terms: Terms, *, note: str, code: str = "") -> str | None:
        """See Person.sign_in."""
        resource, server_url = sought.resource.identifier, self.target.url
        warnings = sign_in_warnings(url, sought.issuer, resource, server_url, has_code=bool(code))
        return await self._person.sign_in(
            server=self.target.server,
            account=self.target.account,
            issuer=sought.issuer,
            url=url,
            scopes=sought.scopes,
            code=code,
            note=note,
            terms=replace(terms, warnings=warnings),
        )

    async def others(self) -> tuple[str, ...]:
        """The accounts that are signed in there and could be chosen instead, where the user named none."""
        target = self.target
        return () if target.named else await self._keep.others(target.key, target.account)

    def refused(self) -> NotSignedIn:
        """The person said no."""
        name = self.target.server
        return NotSignedIn(f"You did not sign in to {name!r}.", f"Do it with: mcphost login {quote(name)}")

    def report_foreign_answer(self, seconds: float) -> None:
        """Tell, once, of an answer that was not used; anybody can send one. `seconds` are left for the right one."""
        if not self._has_foreign_answer:
            self._has_foreign_answer = True
            self.at(Step.PERSON, seconds=seconds, text=f"{Step.PERSON.value}; {FOREIGN_ANSWER}")

    def nobody(self) -> NotSignedIn:
        """Nobody did anything in time."""
        name = self.target.server
        # A client that was deleted there is told of on a page in the browser, and nobody comes back from that.
        forget = f"\nIf the page did not know mcphost: mcphost logout {quote(name)} --forget-client"
        gone = forget if self.is_known else ""
        more = f" {FOREIGN_ANSWER[0].upper()}{FOREIGN_ANSWER[1:]}." if self._has_foreign_answer else ""
        return NotSignedIn(
            f"Nobody signed in to {name!r} within {_span(self.target.seconds)}.{more}",
            f"Try again with: mcphost login {quote(name)}{gone}",
        )


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"
