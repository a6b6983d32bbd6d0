"""What a server gave back, read by the user before the model may have it, where the user wants that of its server.

Every way by which something of such a server could reach the conversation asks here: results of calls, words of calls
that failed, the rest of a result that was kept before, skills, resources attached to a message.
"""

from collections.abc import Sequence
from typing import Any

from mcphost.config.rules import Rule, write
from mcphost.errors import Declined, UsageError
from mcphost.host.audit.audit_log import Act, Journal
from mcphost.host.consent.rule_matching import Asked, Matching
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ResultReviewed
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.question_budget import OpenQuestions, TooManyQuestions
from mcphost.host.questions.result_review_questions import PassResult, Piece, ReviewResult, Withhold, given
from mcphost.host.results.presentation import Rendered, for_model, joined
from mcphost.host.servers.servers import Servers
from mcphost.llm.messages import Part, ResourcePart
from mcphost.serialization import Data, replace

WITHHELD = (
    "The call ran. Its result is withheld from you on behalf of the user, which is no failure: calling again gives you "
    "nothing more. Go on without it, or ask the user."
)
NOT_ASKED = "The call ran. Its result is withheld from you, because the user could not be asked about it:"
RAN = "The call ran. The user stopped before its result was given to you."
ATTACHED = "[The user attached this resource, and did not give it to you after reading it.]"
READ = "resources/read"


class Reviewed(Data, frozen=True):
    """What came of it: the parts that the model gets, or none and what it is told instead."""

    parts: tuple[Piece, ...]
    instead: str = ""

    @property
    def rendered(self) -> Rendered:
        """The parts as one result."""
        return joined(self.parts)


class Reviewing:
    """Asks; what is not given in so many words is withheld."""

    def __init__(
        self, front: Front, journal: Journal, feeds: Feeds, servers: Servers, matching: Matching,
        passes: tuple[Rule, ...], questions: OpenQuestions | None = None,
    ) -> None:  # fmt: skip
        """`passes`: rules about calls whose results are given unread in this run; `questions` bounds what is open."""
        self._front = front
        self._journal = journal
        self._feeds = feeds
        self._servers = servers
        self._matching = matching
        self._passes = passes
        self._questions = questions or OpenQuestions()
        self._unread: set[str] = set()

    def wanted(self, server: str) -> bool:
        """Whether what comes from this server is to be reviewed; not for one that is not configured any more."""
        try:
            return self._servers.find(server).config.review_results
        except UsageError:
            return False

    def cut(self, call: str) -> bool:
        """Whether a call ran, and its review was ended by the end of the turn; said once."""
        was = call in self._unread
        self._unread.discard(call)
        return was

    async def review(
        self, server: str, call: str, tool: str, arguments: dict[str, Any], parts: tuple[Piece, ...], why: str,
        *, is_error: bool = False,
    ) -> Reviewed:  # fmt: skip
        """Ask about the parts; cancelling withdraws the question, and then nothing was given."""
        self._unread.add(call)
        parts = for_model(parts)
        connection = self._servers.find(server)
        asked = Asked(
            server=server, tool=tool, arguments=arguments, account=connection.account, folder=connection.folder
        )
        question = ReviewResult(
            server=server, account=connection.account, why=why, call=call, tool=tool, arguments=arguments, parts=parts,
            is_error=is_error,
        )  # fmt: skip
        answer = await self._by_rule(asked, call) if parts else PassResult()
        if answer is None:
            try:
                with self._questions.hold(server, sum(len(one.text) + _image_size(one) for one in parts)):
                    answer = await self._front.ask(question)
            except TooManyQuestions as error:
                self._unread.discard(call)
                return Reviewed((), f"{NOT_ASKED} {error.message}")
        self._unread.discard(call)
        got = given(question, answer)
        if got or not parts:
            return Reviewed(got)
        reason = answer.reason if isinstance(answer, Withhold) else ""
        return Reviewed((), f"{WITHHELD} The user says: {reason}" if reason else WITHHELD)

    async def _by_rule(self, asked: Asked, call: str) -> PassResult | Withhold | None:
        for rule in self._passes:
            if await self._matching.matches(rule, asked) == "yes":
                act = Act(kind="result", server=asked.server, subject=asked.tool, call=call, arguments=asked.arguments)
                try:
                    await self._journal.decided(act, "passed", who="rule", grant=write(rule))
                except Declined as error:
                    return Withhold(error.message)
                return PassResult()
        return None

    def tell(self, call: str, server: str, tool: str, reviewed: Reviewed, before: tuple[Piece, ...], kept: str) -> None:
        """Tell what the model got of a call."""
        outcome = "withheld" if reviewed.instead else "passed" if reviewed.parts == for_model(before) else "changed"
        text = "" if reviewed.instead else reviewed.rendered.for_people
        self._feeds.put(ResultReviewed(call, server, tool, outcome, text, kept))

    async def attached(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """What goes to the model with a message: resources of such servers as far as they were given."""
        return tuple([await self._attached(part) for part in parts])

    async def _attached(self, part: Part) -> Part:
        if not isinstance(part, ResourcePart) or not self.wanted(part.server):
            return part
        piece = Piece(kind="resource", text=part.text, mime_type=part.mime_type, size=len(part.text))
        why = "you attached it to your message"
        reviewed = await self.review(part.server, "", READ, {"uri": part.uri}, (piece,), why)
        return replace(part, text=ATTACHED if reviewed.instead else reviewed.rendered.text)

    def withheld(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """The same when nobody got to read them."""
        return tuple(
            replace(part, text=ATTACHED) if isinstance(part, ResourcePart) and self.wanted(part.server) else part
            for part in parts
        )


def _image_size(part: Piece) -> int:
    return len(part.image.data) if part.image is not None else 0
