"""The review of a tool result before the model receives it, and its answers."""

from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.host.questions.question import Question
from mcphost.llm.messages import ImagePart
from mcphost.serialization import Struct, loads


class ResultPart(Struct, frozen=True, kw_only=True):
    """One part of a result, as the model receives it.

    `kind`: text, image, audio, link, resource, structured (JSON), other, error (a failed call) or note (from mcphost).
    `text` is for the model; `image` accompanies it. `size` is the size of the underlying data in bytes. `for_user`: the
    server meant it only for the user.
    """

    kind: str
    text: str
    image: ImagePart | None = None
    mime_type: str = ""
    size: int = 0
    for_user: bool = False


class PassResult(Struct, frozen=True):
    """Pass the result to the model as shown."""


class PassEditedResult(Struct, frozen=True):
    """Pass these texts to the model, one for each part in order; None omits the part and its image."""

    texts: tuple[str | None, ...]


class WithholdResult(Struct, frozen=True):
    """Withhold the result; the model reads `reason`."""

    reason: str = ""


ResultVerdict = PassResult | PassEditedResult | WithholdResult


class ReviewResult(Question[ResultVerdict], frozen=True, kw_only=True):
    """Review of a result: `parts` is everything that the model would receive, in order.

    `tool` was called with `arguments`; it is `resources/read` for a resource that the user attached and `load_skill`
    for a skill. `is_error`: the tool reported a failure.
    """

    KIND: ClassVar[str] = "review_result"
    call: str
    tool: str
    arguments: dict[str, Any]
    parts: tuple[ResultPart, ...]
    is_error: bool = False

    def refusal(self) -> ResultVerdict:
        """Return the answer that refuses."""
        return WithholdResult()


def edited_texts_error(question: ReviewResult, texts: tuple[str | None, ...]) -> str:
    """Return why these texts cannot replace the parts, as a sentence; "" if they can."""
    if len(texts) != len(question.parts):
        return f"There are {len(question.parts)} parts, but {len(texts)} texts."
    for part, text in zip(question.parts, texts, strict=True):
        if part.kind == "structured" and text is not None and text != part.text:
            try:
                loads(text, "structured content")
            except MalformedMessage as error:
                return error.message
    return ""


def passed_parts(question: ReviewResult, answer: object) -> tuple[ResultPart, ...]:
    """Return the parts for the model; none if withheld, or if the answer is invalid."""
    if isinstance(answer, PassResult):
        return question.parts
    if not isinstance(answer, PassEditedResult) or edited_texts_error(question, answer.texts):
        return ()
    pairs = zip(question.parts, answer.texts, strict=True)
    return tuple(ResultPart(kind=part.kind, text=text, image=part.image) for part, text in pairs if text is not None)
