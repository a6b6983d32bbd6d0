"""Shortening of tool results in requests: to fit the context window, and again when they are old.

Stored messages keep the full results, and the model can read omitted parts with `read_result`. Providers cache
the beginning of a request, which must therefore not change with each request. For this reason, old results are
shortened in batches, when requests become large. See docs/decisions/0028-shorten-old-results-in-batches.md.
"""

import time
from collections.abc import Callable, Sequence

from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.builtin_tool_names import READ_CONVERSATION, READ_RESULT
from mcphost.host.content_rendering import truncate_at_line
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.model_selection import ModelSelection
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.tools.builtin_tools import ResultTool
from mcphost.llm.messages import Message, Part, ResourcePart, ToolReturnPart, is_result
from mcphost.llm.model import ModelRequest
from mcphost.llm.token_estimate import MessageCache, estimate_message_tokens, estimate_request_tokens
from mcphost.pluralize import pluralize
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import replace

OLD_HEAD_BYTES, OLD_TAIL_BYTES = 800, 200
"""Number of bytes kept at the beginning and at the end of an old result."""
_MIN_OLD_BYTES = 1_500
"""Old results smaller than this are not shortened, because the added note would outweigh the saving."""
_NOTE_BYTES = 400
"""Bytes by which a truncated result may exceed its limit, for notes such as how to read the omitted part."""
_MIN_CUT_BYTES = 200
_TARGET = 2 / 3
"""A batch reduces requests to this share of the threshold, so that many requests can follow before the next batch."""
_MIN_SAVING = 0.1
"""Minimum share of the context window that a batch must save to be worth losing the provider's cache."""


class ResultShortening:
    """Request stage that shortens tool results to fit the context window, and shortens old results further."""

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        active: ActiveConversation,
        model_selection: ModelSelection,
        result_tool: ResultTool,
        events: EventBus,
    ) -> None:
        self._settings = settings
        self._model_selection = model_selection
        self._limits = result_tool.limits
        self._result_tool = result_tool
        self._events = events
        self._old_count = 0  # how many of the conversation's first messages have old results
        self._model: str = ""
        self._old_messages = _create_cache(shorten_old_results)
        self._fitted_messages, self._fitted_bytes = self._old_messages, 0
        self._active = active
        active.on_replaced(self._reset)
        active.on_rewound(self._go_back)

    def _reset(self) -> None:
        self._old_count, self._model = 0, ""
        self._result_tool.has_shortened = False

    def _go_back(self) -> None:
        self._old_count = min(self._old_count, _find_last_results(self._active.current.messages))

    def apply(self, conversation: Conversation, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return the messages with shortened tool results.

        Repeated calls shorten a message in the same way, until `advance` selects more old results or the model changes.
        """
        name: str = self._model_selection.config.name
        if name != self._model:
            # Another model has a different context window and an empty cache.
            self._old_count, self._model = 0, name
        # A summary replaces the first messages, so positions are counted from the end.
        old = self._old_count - (len(conversation.messages) - len(messages))
        max_bytes = self._limits.round_bytes
        if max_bytes != self._fitted_bytes:
            self._fitted_messages = _create_cache(lambda message: fit_results(message, max_bytes))
            self._fitted_bytes = max_bytes
        sent = tuple(
            message
            if message.role == "assistant" or not message.results
            else self._get_old(message)
            if at < old
            else self._get_fitted(message)
            for at, message in enumerate(messages)
        )
        self._result_tool.has_shortened = self._result_tool.has_shortened or any(
            after is not before for before, after in zip(messages, sent, strict=True)
        )
        return sent

    def _get_old(self, message: Message) -> Message:
        return self._old_messages.get(message) or message

    def _get_fitted(self, message: Message) -> Message:
        return self._fitted_messages.get(message) or message

    def advance(self, conversation: Conversation, request: ModelRequest, *, is_refused: bool = False) -> bool:
        """Shorten a batch of old results if *request* is large; return whether the request must be built again.

        If *is_refused* is true, the provider rejected the request as too long; all results are then shortened, except
        those of the last message with results.
        """
        window = self._model_selection.window
        tokens = estimate_request_tokens(request, conversation.beginning_changed_at)
        if not is_refused and tokens <= window * self._settings.context.shorten_above:
            return False
        target = 0 if is_refused else tokens - window * self._settings.context.shorten_above * _TARGET
        count, results, saved = self._plan(conversation, target)
        if saved < (1 if is_refused else window * _MIN_SAVING):
            return False
        self._old_count = count
        conversation.beginning_changed_at = time.time()
        older = pluralize(results, "older result")
        self._events.notify(
            "info",
            f"From now on the model gets {older} in short form, which saves about {saved:,} tokens.",
            f"What is stored does not change; the model can read a full result with {READ_RESULT}.",
        )
        return True

    def _plan(self, conversation: Conversation, target: float) -> tuple[int, int, int]:
        """Plan which old results to shorten next, oldest first, to save *target* tokens.

        If *target* is 0, all results except those of the last message with results are shortened. Returns a tuple of
        three numbers:

        - how many messages at the beginning have shortened results afterwards
        - how many results are newly shortened
        - how many tokens this saves
        """
        messages = conversation.messages
        count, results, saved = self._old_count, 0, 0
        for at in range(max(count, conversation.covered), _find_last_results(messages)):
            if messages[at].results:
                before, after = self._get_fitted(messages[at]), self._get_old(messages[at])
                less = estimate_message_tokens(before) - estimate_message_tokens(after)
                if less > 0:
                    count, saved = at + 1, saved + less
                    results += sum(one is not other for one, other in zip(before.results, after.results, strict=True))
                if target and saved >= target:
                    break
        return count, results, saved


def _create_cache(shorten: Callable[[Message], Message]) -> MessageCache[Message | None]:
    """Create a cache of shortened messages; it contains None for a message that *shorten* does not change.

    The message itself must not be stored as its value. The cache drops a value when its message is freed, and a
    reference from the value would keep the message alive.
    """

    def compute(message: Message) -> Message | None:
        shortened = shorten(message)
        return None if shortened is message else shortened

    return MessageCache(compute)


def _find_last_results(messages: Sequence[Message]) -> int:
    """Return the index of the last message with tool results, or 0 if there is none."""
    return next((at for at in reversed(range(len(messages))) if messages[at].results), 0)


def fit_results(message: Message, max_bytes: int) -> Message:
    """Return the message with its tool results truncated to *max_bytes* in total.

    Each result takes at most half of *max_bytes*. All truncated results get the same length, and each ends with a
    note that tells the model how to read the remaining text.
    """
    sizes = [_size(part.text) if is_result(part) else 0 for part in message.parts]
    limit = max(_fair_limit(sizes, max_bytes), _MIN_CUT_BYTES)
    if max(sizes, default=0) <= limit + _NOTE_BYTES:
        return message
    pairs = zip(message.parts, sizes, strict=True)
    parts = (part if size <= limit + _NOTE_BYTES else _cut(part, size, limit) for part, size in pairs)
    return replace(message, parts=tuple(parts))


def _fair_limit(sizes: Sequence[int], max_bytes: int) -> int:
    """Return the largest limit per item that keeps the total size of all items within *max_bytes*.

    *sizes* are the sizes of the items; longer items are truncated to the limit. The limit is at most half of
    *max_bytes*.
    """
    left, limit = max_bytes, max_bytes // 2
    for at, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - at)
        if size > share:
            return min(limit, share)
        left -= size
    return limit


def _cut(part: Part, size: int, limit: int) -> Part:
    # `read_conversation` already fits its result to the window, and says how to read on.
    if not is_result(part) or (isinstance(part, ToolReturnPart) and part.name == READ_CONVERSATION):
        return part
    shown = truncate_at_line(part.text, limit)
    end, shown = _size(shown), shown.removesuffix("\n")
    note = f"the first {end:,} of {size:,} bytes of this result. To read more, call {_call(part, end)}"
    return replace(part, text=f"{shown}\n[mcphost: the text above is {note}]")


def shorten_old_results(message: Message) -> Message:
    """Return the message with only the beginning and end of long tool results, and without the images in them."""
    parts = tuple(_shorten_old(part) for part in message.parts)
    if all(after is before for before, after in zip(message.parts, parts, strict=True)):
        return message
    return replace(message, parts=parts)


def _shorten_old(part: Part) -> Part:
    if not is_result(part):
        return part
    images = part.images if isinstance(part, ToolReturnPart) else ()
    body = replace_surrogates(part.text).encode()
    if len(body) < _MIN_OLD_BYTES and not images:
        return part
    text, left_out = part.text, f"{len(images)} of its images" if images else ""
    if len(body) >= _MIN_OLD_BYTES:
        head = truncate_at_line(part.text, OLD_HEAD_BYTES)
        tail = body[-OLD_TAIL_BYTES:].decode(errors="ignore")
        tail = tail[tail.find("\n", 0, len(tail) // 2) + 1 :]  # begins with a line, if one begins near
        size = len(body) - _size(head) - _size(tail)
        left_out = f"{size:,} of {len(body):,} bytes{f' and {left_out}' if left_out else ''}"
        head = head.removesuffix("\n")
        text = f"{head}\n[…]\n{tail}"
    note = f"{left_out} of this old result are omitted. To read it again, call {_call(part, 0)}"
    text = f"{text}\n[mcphost: {note}]"
    return replace(part, text=text, images=()) if isinstance(part, ToolReturnPart) else replace(part, text=text)


def _call(part: ToolReturnPart | ResourcePart, offset: int) -> str:
    return f'{READ_RESULT}: {{"result": "{part.use_id}", "offset": {offset}}}'


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(replace_surrogates(text).encode())
