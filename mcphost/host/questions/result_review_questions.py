"""Asking whether the model may have what a server gave back, whole, changed or not at all, and the answers to it."""

from typing import Any, ClassVar

from mcphost.errors import MalformedMessage
from mcphost.host.questions.question import Question
from mcphost.llm.messages import ImagePart
from mcphost.serialization import Struct, loads


class ResultPart(Struct, frozen=True, kw_only=True):
    """One part of what a server gave back, as the model is told of it.

    `kind`: text, image, audio, link, resource, structured (JSON), other, error (a call that failed) or note (what
    mcphost has to say of it). `text` is what the model reads; `image` goes with it, where it is a picture. `size` is
    that of what is behind it, in bytes. `for_user`: the server meant it for the user alone.
    """

    kind: str
    text: str
    image: ImagePart | None = None
    mime_type: str = ""
    size: int = 0
    for_user: bool = False


class PassResult(Struct, frozen=True):
    """Give it to the model as it was shown."""


class PassEditedResult(Struct, frozen=True):
    """Give it to the model with these texts, one for each part in order; None leaves a part out, with its picture."""

    texts: tuple[str | None, ...]


class WithholdResult(Struct, frozen=True):
    """The model gets nothing of it; `reason` is for the model to read."""

    reason: str = ""


ResultVerdict = PassResult | PassEditedResult | WithholdResult


class ReviewResult(Question[ResultVerdict], frozen=True, kw_only=True):
    """A call ran; may the model have what came of it? `parts` is all that it would get, in order.

    `tool` was called with `arguments`; it is `resources/read` for a resource that the user attached, `load_skill` for a
    skill. `is_error`: the tool says that it failed.
    """

    KIND: ClassVar[str] = "review_result"
    call: str
    tool: str
    arguments: dict[str, Any]
    parts: tuple[ResultPart, ...]
    is_error: bool = False

    def refusal(self) -> ResultVerdict:
        return WithholdResult()


def edited_texts_error(question: ReviewResult, texts: tuple[str | None, ...]) -> str:
    """Why these texts cannot stand for the parts, in a sentence; empty when they can."""
    if len(texts) != len(question.parts):
        return f"There are {len(question.parts)} parts, and {len(texts)} texts for them."
    for part, text in zip(question.parts, texts, strict=True):
        if part.kind == "structured" and text is not None and text != part.text:
            try:
                loads(text, "structured content")
            except MalformedMessage as error:
                return error.message
    return ""


def passed_parts(question: ReviewResult, answer: object) -> tuple[ResultPart, ...]:
    """The parts that the model gets; none when it gets nothing, which is also what an answer means that is none."""
    if isinstance(answer, PassResult):
        return question.parts
    if not isinstance(answer, PassEditedResult) or edited_texts_error(question, answer.texts):
        return ()
    kept = zip(question.parts, answer.texts, strict=True)
    return tuple(ResultPart(kind=one.kind, text=text, image=one.image) for one, text in kept if text is not None)
