"""The host's own tool for reading on in truncated results, and the storage of those results."""

from collections.abc import Callable, Iterable
from pathlib import Path

from mcphost.errors import StoreError
from mcphost.host.event_queue import EventBus
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.questions.result_review_questions import ResultPart
from mcphost.host.reserved_names import READ_RESULT
from mcphost.host.results.presentation import MODEL_TEXT_LIMIT, RenderedResult
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.tool_outcome import ToolCallOutcome, make_tool_return
from mcphost.llm.messages import Message, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.sanitize import strip_hidden_text
from mcphost.serialization import Raw, encode, replace
from mcphost.store.results import ResultStore

_READ_RESULT_SCHEMA = {
    "type": "object",
    "properties": {
        "result": {"type": "string", "description": "The name under which the result is kept"},
        "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin with"},
        "limit": {"type": "integer", "minimum": 1, "description": f"How many bytes, at most {MODEL_TEXT_LIMIT}"},
    },
    "required": ["result"],
    "additionalProperties": False,
}
_READ_RESULT_SPEC = ToolSpec(
    READ_RESULT, "Read on in a tool's result that was too big to be given whole.", Raw(encode(_READ_RESULT_SCHEMA))
)


class ResultTool:
    """Storage of results that are too big for the model, and reading them in the open conversation.

    No approval is asked: the call was approved, and the model received the beginning of its result. Only an unreviewed
    result of a server with review is shown to the user first.
    """

    def __init__(
        self,
        result_store: ResultStore,
        messages: Callable[[], Iterable[Message]],
        events: EventBus,
        reviewer: ResultReviewer,
    ) -> None:
        self._result_store = result_store
        self._messages = messages
        self._events = events
        self._reviewer = reviewer

    async def store(self, rendered: RenderedResult) -> tuple[RenderedResult, str]:
        """Store a result that is too big; return it with a note, and its file. Never raises."""
        if not rendered.is_too_big:
            return rendered, ""
        try:
            return rendered, await self._result_store.save(rendered.model_text)
        except StoreError as error:
            note = f"The model received only the beginning of this result, and the rest was not stored: {error.message}"
            return replace(rendered, note=f"{rendered.note} {note}".strip()), ""

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tool once a result of the conversation was truncated."""
        return (_READ_RESULT_SPEC,) if any(True for _ in self._stored_results()) else ()

    def _stored_results(self) -> Iterable[ToolReturnPart]:
        for message in self._messages():
            if message.role == "tool":
                for part in message.parts:
                    if isinstance(part, ToolReturnPart) and part.kept:
                        yield part

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one call that the model proposed. Raises nothing but cancellation."""
        args = use.arguments or {}
        name, offset, limit = args.get("result"), args.get("offset", 0), args.get("limit", MODEL_TEXT_LIMIT)
        source = next((result for result in self._stored_results() if Path(result.kept).stem == name), None)
        server = source.server if source else ""
        self._events.publish(ToolProposed(use.id, server, READ_RESULT, use.arguments, use.raw))
        if source is None or not isinstance(name, str):
            return self._fail(use, server, "No result of this conversation is stored under that name.", is_invalid=True)
        if not _is_count(offset, 0) or not _is_count(limit, 1):
            return self._fail(use, server, "offset and limit are whole numbers of bytes.", is_invalid=True)
        self._events.publish(ToolStarted(use.id, server, READ_RESULT, args, "session"))
        try:
            chunk = await self._result_store.read(name, offset, min(limit, MODEL_TEXT_LIMIT))
        except StoreError as error:
            return self._fail(use, server, f"{error.message} {error.hint}".strip())
        continuation = f"; it continues at offset {chunk.end}" if chunk.end < chunk.size else "; this is its end"
        head = f"[mcphost: bytes {chunk.offset} to {chunk.end} of {chunk.size} of this result{continuation}]"
        text = f"{head}\n{chunk.text}"
        self._events.publish(ToolFinished(use.id, server, READ_RESULT, "ok", text))
        if not source.reviewed and self._reviewer.is_required(server):
            shown = (ResultPart(kind="text", text=chunk.text, size=len(chunk.text)),)
            reviewed = await self._reviewer.review(server, use.id, READ_RESULT, args, shown, why)
            self._reviewer.publish(use.id, server, READ_RESULT, reviewed, shown, "")
            text = reviewed.replacement or f"{head}\n{reviewed.rendered.text}"
        # Not truncated again: the part is within the limit, and the heading says where it continues.
        return ToolCallOutcome(make_tool_return(use, server, READ_RESULT, strip_hidden_text(text), outcome="ok"))

    def _fail(self, use: ToolUsePart, server: str, text: str, *, is_invalid: bool = False) -> ToolCallOutcome:
        self._events.publish(ToolFinished(use.id, server, READ_RESULT, "failed", text))
        return ToolCallOutcome(
            make_tool_return(use, server, READ_RESULT, text, outcome="failed"), is_invalid=is_invalid
        )


def _is_count(value: object, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and minimum <= value < 2**53
