"""A model with a small context window that can write summaries and has no memory beyond each request."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mcphost.errors import ModelError
from mcphost.host.conversation.summarizer import SUMMARY_PROMPT
from mcphost.llm.messages import TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest, StreamFinished, TextDelta, ToolUseReady, Usage
from mcphost.serialization import encode

CHARS_PER_TOKEN = 4
_CODE = re.compile(r"code of (\w+) is (\w+)")


def size_of(request: ModelRequest) -> int:
    """Return the number of tokens in a request, as this model counts them."""
    return len(encode((request.messages, request.system, request.tools))) // CHARS_PER_TOKEN


def text_of(request: ModelRequest) -> str:
    """Return the text of all messages in a request."""
    parts = [part for message in request.messages for part in message.parts]
    return "\n".join(part.text for part in parts if isinstance(part, TextPart | ToolReturnPart))


def is_summary_request(request: ModelRequest) -> bool:
    return request.system.startswith(SUMMARY_PROMPT[:40])


def write_codes(request: ModelRequest) -> str:
    """Return a summary with a sentence for each code and each earlier sentence, with message numbers."""
    lines: list[str] = []
    for entry in map(json.loads, text_of(request).splitlines()):
        if "sentence" in entry:
            lines.append(f"{entry['sentence']} [{entry['for']}]")
        lines += [
            f"The code of {name} is {code}. [{entry['n']}]" for name, code in _CODE.findall(entry.get("text", ""))
        ]
    return "\n".join(lines) or "They talked."


def write_topics(request: ModelRequest) -> str:
    """Return a summary of one sentence for all messages, in which every code is lost."""
    entries = map(json.loads, text_of(request).splitlines())
    numbers = [str(entry["n"] if "n" in entry else entry["for"]) for entry in entries]
    return f"The user told codes of items. [{', '.join(numbers)}]"


class WindowedModel:
    """A model that answers "what is the code of X" from its request, or by calling `read_conversation`."""

    name = "windowed"
    label = "windowed"

    def __init__(
        self, window: int, summarize: Callable[[ModelRequest], str] = write_codes, *, told: bool = True
    ) -> None:
        """Set the size of the context window in tokens; unless *told* is true, `facts` does not contain it."""
        self.window = window
        self.facts = ModelFacts(context_window=window if told else 0)
        self.summarize = summarize
        self.requests: list[ModelRequest] = []
        self.refused = 0

    @property
    def summaries(self) -> list[ModelRequest]:
        """The requests for summaries so far."""
        return [request for request in self.requests if is_summary_request(request)]

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ModelEvent]]:
        yield self._answer(request)

    async def _answer(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        size = size_of(request)
        if size > self.window:
            self.refused += 1
            raise ModelError(f"The conversation is longer than {self.name} can take.", model_kind="context")
        self.requests.append(request)
        usage = Usage(input_tokens=size, output_tokens=10, cost=0.001)
        if is_summary_request(request):
            yield TextDelta(self.summarize(request))
            yield StreamFinished("stop", usage)
            return
        last = request.messages[-1]
        question = next(message.text for message in reversed(request.messages) if message.role == "user")
        wanted = re.search(r"what is the code of (\w+)", question)
        found = dict(_CODE.findall(text_of(request))).get(wanted[1]) if wanted else None
        can_search = any(tool.name == "read_conversation" for tool in request.tools)
        if wanted and not found and can_search and last.role != "tool":
            arguments = {"search": f"code of {wanted[1]} is"}
            yield ToolUseReady(ToolUsePart(f"use-{len(self.requests)}", "read_conversation", arguments))
            yield StreamFinished("tool_calls", usage)
            return
        yield TextDelta(f"It is {found}." if found else "I do not know." if wanted else "Noted.")
        yield StreamFinished("stop", usage)

    async def load_facts(self) -> None:
        """Do nothing, because `facts` is already set."""

    async def prepare(self) -> None:
        """Do nothing, because the model is always ready."""

    async def close(self) -> None:
        """Do nothing."""
