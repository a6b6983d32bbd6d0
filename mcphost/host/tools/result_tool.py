"""The host's own tool with which the model reads on in a result that was too big for it, and the keeping of those."""

from collections.abc import Callable, Iterable
from pathlib import Path

from mcphost.errors import StoreError
from mcphost.host.event_queue import Feeds
from mcphost.host.events import ToolFinished, ToolProposed, ToolStarted
from mcphost.host.questions.result_review_questions import Piece
from mcphost.host.reserved_names import READ_RESULT
from mcphost.host.results.presentation import MODEL_TEXT_LIMIT, Rendered
from mcphost.host.tools.result_review import Reviewing
from mcphost.host.tools.tool_outcome import Called, part
from mcphost.llm.messages import Message, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.sanitize import readable
from mcphost.serialization import Raw, encode, replace
from mcphost.store.results import Results

_SCHEMA = {
    "type": "object",
    "properties": {
        "result": {"type": "string", "description": "The name under which the result is kept"},
        "offset": {"type": "integer", "minimum": 0, "description": "The byte to begin with"},
        "limit": {"type": "integer", "minimum": 1, "description": f"How many bytes, at most {MODEL_TEXT_LIMIT}"},
    },
    "required": ["result"],
    "additionalProperties": False,
}
_SPEC = ToolSpec(READ_RESULT, "Read on in a tool's result that was too big to be given whole.", Raw(encode(_SCHEMA)))


class ResultTool:
    """Keeps what is too big, and gives parts of it: to the model, of results of the open conversation only.

    Nobody is asked for that: the call that brought the result was allowed, and the model was given its beginning. Only
    where the user wants to read what comes of a server, and has not read that one, it is shown first.
    """

    def __init__(
        self, stored: Results, messages: Callable[[], Iterable[Message]], feeds: Feeds, reviewing: Reviewing
    ) -> None:
        self._stored = stored
        self._messages = messages
        self._feeds = feeds
        self._reviewing = reviewing

    async def keep(self, rendered: Rendered) -> tuple[Rendered, str]:
        """Keep a result that is too big for the model: what is to be said of it, and its file. Raises nothing."""
        if not rendered.is_too_big:
            return rendered, ""
        try:
            return rendered, await self._stored.keep(rendered.may_be_read)
        except StoreError as error:
            said = f"The model got the beginning of this result only, and the whole could not be kept: {error.message}"
            return replace(rendered, note=f"{rendered.note} {said}".strip()), ""

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tool for the model, once a result of the conversation was too big."""
        return (_SPEC,) if any(True for _ in self._kept()) else ()

    def _kept(self) -> Iterable[ToolReturnPart]:
        for message in self._messages():
            if message.role == "tool":
                for one in message.parts:
                    if isinstance(one, ToolReturnPart) and one.kept:
                        yield one

    async def run(self, use: ToolUsePart, why: str) -> Called:
        """One call the model proposed. Raises nothing but cancellation."""
        given = use.arguments or {}
        name, offset, limit = given.get("result"), given.get("offset", 0), given.get("limit", MODEL_TEXT_LIMIT)
        source = next((one for one in self._kept() if Path(one.kept).stem == name), None)
        server = source.server if source else ""
        self._feeds.put(ToolProposed(use.id, server, READ_RESULT, use.arguments, use.raw))
        if source is None or not isinstance(name, str):
            return self._failed(use, server, "No result of this conversation is kept by that name.", bad=True)
        if not _is_count(offset, 0) or not _is_count(limit, 1):
            return self._failed(use, server, "offset and limit are whole numbers of bytes.", bad=True)
        self._feeds.put(ToolStarted(use.id, server, READ_RESULT, given, "session"))
        try:
            found = await self._stored.read(name, offset, min(limit, MODEL_TEXT_LIMIT))
        except StoreError as error:
            return self._failed(use, server, f"{error.message} {error.hint}".strip())
        after = f"; it goes on at offset {found.end}" if found.end < found.size else "; that is its end"
        head = f"[mcphost: bytes {found.offset} to {found.end} of {found.size} of this result{after}]"
        text = f"{head}\n{found.text}"
        self._feeds.put(ToolFinished(use.id, server, READ_RESULT, "ok", text))
        if not source.reviewed and self._reviewing.wanted(server):
            shown = (Piece(kind="text", text=found.text, size=len(found.text)),)
            reviewed = await self._reviewing.review(server, use.id, READ_RESULT, given, shown, why)
            self._reviewing.tell(use.id, server, READ_RESULT, reviewed, shown, "")
            text = reviewed.instead or f"{head}\n{reviewed.rendered.text}"
        # Not cut again: the part is within the bound, and what says where it goes on stands before it.
        return Called(part(use, server, READ_RESULT, readable(text), outcome="ok"))

    def _failed(self, use: ToolUsePart, server: str, text: str, *, bad: bool = False) -> Called:
        self._feeds.put(ToolFinished(use.id, server, READ_RESULT, "failed", text))
        return Called(part(use, server, READ_RESULT, text, outcome="failed"), bad=bad)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**53
