"""Example forms, and example questions with text fields."""

from typing import Any

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import FillForm, ResultPart, ReviewResult
from mcphost.host.questions.sign_in import EnterClientId
from mcphost.serialization import replace
from tests.screens.screenshots import RESULT

CLIENT_ID_QUESTION = EnterClientId(
    server="tracker",
    why="the server tracker wants to know who you are",
    issuer="https://login.example",
    redirect_uri="http://127.0.0.1:41413/callback",
    account="work",
    note="The authorization server registers \x1b[31mnobody.",
)


NAME_FIELD = Field(name="name", kind="text", title="Your name", required=True, min_length=2)


NOTE_FIELD = Field(name="note", kind="text", description="Anything else")


AGE_FIELD = Field(name="age", kind="integer", minimum=1, maximum=150, default=30)


WATCH_FIELD = Field(name="watch", kind="boolean")


def form_question(*fields: Field, **more: Any) -> FillForm:
    return FillForm(server="quiz", why="requested by its tool ask", message="Who are you?", fields=fields, **more)


def result_question(*parts: str | ResultPart, **more: Any) -> ReviewResult:
    pieces = (ResultPart(kind="text", text=part, size=len(part)) if isinstance(part, str) else part for part in parts)
    return replace(RESULT, parts=tuple(pieces), **more)
