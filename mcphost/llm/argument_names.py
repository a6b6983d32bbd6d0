"""Renaming of arguments whose names a provider rejects, such as `filter[id]`.

The provider receives tools with other names for these arguments. In each tool call of the model, the server's names are
restored first, so that only they appear in reviews, in rules and in the request to the server. When a later request
contains the call, its arguments are renamed again. Only the arguments themselves are renamed, not the members of their
values.

This module runs in the worker process. It does no I/O.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from mcphost.llm.answer_limits import MAX_ANSWER_LENGTH, AnswerTooLong
from mcphost.llm.worker_protocol import WorkerEvent, WorkerToolCallDelta
from mcphost.serialization import dumps, loads_or_none, replace

ARGUMENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""The names of arguments that Anthropic accepts."""
_REFUSED_CHARACTERS = re.compile(r"[^A-Za-z0-9_.-]+")
_MAX_BASE_LENGTH = 48
_MAX_QUOTED_LENGTH = 200

Names = Mapping[str, str]
"""The server's names of renamed arguments, keyed by the names that the provider receives."""


def rename_arguments(schema: dict[str, Any]) -> tuple[dict[str, Any], Names]:
    """Return an object schema in which every argument has a name that providers accept.

    Also returns the renamed arguments: the server's names, keyed by the new names. The description of a renamed
    argument contains the server's name for it.
    """
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    accepted = _choose_names(properties)
    if not accepted:
        return schema, {}
    renamed = {
        accepted.get(name, name): _describe(name, value) if name in accepted else value
        for name, value in properties.items()
    }
    required = [accepted.get(name, name) for name in cast("list[str]", schema.get("required") or ())]
    adapted = schema | {"properties": renamed} | ({"required": required} if "required" in schema else {})
    return adapted, {new: name for name, new in accepted.items()}


def has_refused_name(schema: dict[str, Any]) -> bool:
    """Return whether an object schema has an argument that `rename_arguments` would rename."""
    return any(not ARGUMENT_NAME.fullmatch(name) for name in cast("dict[str, Any]", schema.get("properties") or {}))


def _choose_names(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return a new name for each property whose name providers reject, keyed by the old name.

    A new name differs from the names of all other properties.
    """
    chosen: dict[str, str] = {}
    taken, numbers = set(properties), dict[str, int]()
    for name in properties:
        if ARGUMENT_NAME.fullmatch(name):
            continue
        plain = _REFUSED_CHARACTERS.sub("_", name[:_MAX_QUOTED_LENGTH]).strip("_")
        base = new = plain[:_MAX_BASE_LENGTH] or "argument"
        while new in taken:
            numbers[base] = numbers.get(base, 1) + 1
            new = f"{base}_{numbers[base]}"
        taken.add(new)
        chosen[name] = new
    return chosen


def _describe(name: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, Any]", value)
    about = members.get("description")
    note = f'The argument "{name[:_MAX_QUOTED_LENGTH]}".'
    return members | {"description": f"{note} {about}" if isinstance(about, str) and about else note}


def rename_in_messages(messages: Iterable[dict[str, Any]], names: Mapping[str, Names]) -> None:
    """Rename arguments in the tool calls of Chat Completions messages, in place.

    *names* has the renamed arguments of each tool, keyed by the tool's name.
    """
    for message in messages if names else ():
        for call in cast("list[dict[str, Any]]", message.get("tool_calls") or ()):
            function = call["function"]
            if renamed := names.get(function["name"]):
                accepted = {name: new for new, name in renamed.items()}
                function["arguments"] = _replace_names(function["arguments"], accepted)


def _replace_names(text: str, names: Names) -> str:
    """Return the text of a JSON object with its members renamed as in *names*.

    Any other text is returned unchanged.
    """
    value = loads_or_none(text)
    if not isinstance(value, dict):
        return text
    members = cast("dict[str, Any]", value)
    new = {name: names[name] if name in names and names[name] not in members else name for name in members}
    return dumps({new[name]: member for name, member in members.items()})


class _HeldCall:
    """A tool call that is being received; `pieces` are the pieces of its arguments held back so far."""

    def __init__(self) -> None:
        self.name = ""
        self.pieces: list[str] = []
        self.is_held = True


class CallRestorer:
    """Converter that restores the server's names of arguments in the tool calls of one answer.

    If a tool has renamed arguments, the arguments of its calls are held back until `finish` is called at
    the end of the answer. Meanwhile, events without text are sent, so that the host does not assume that
    the provider has stopped responding.
    """

    def __init__(self, call_id: int, names: Mapping[str, Names]) -> None:
        self._call_id = call_id
        self._names = names
        self._calls: dict[int, _HeldCall] = {}
        self._held_length = 0

    def restore(self, events: Iterable[WorkerEvent]) -> Iterator[WorkerEvent]:
        """Yield *events* without the arguments that are held back until `finish` is called.

        Each tool call in *events* must have its own index. Raises AnswerTooLong if too much text is held back.
        """
        for event in events:
            if self._names and isinstance(event, WorkerToolCallDelta):
                yield self._restore_piece(event)
            else:
                yield event

    def _restore_piece(self, event: WorkerToolCallDelta) -> WorkerToolCallDelta:
        call = self._calls.get(event.index)
        if call is None:
            call = self._calls[event.index] = _HeldCall()
        if not call.name and event.name:
            call.name = event.name
            call.is_held = event.name in self._names
        call.pieces.append(event.text)
        if call.is_held:
            self._held_length += len(event.text)
            if self._held_length > MAX_ANSWER_LENGTH:
                raise AnswerTooLong(f"The answer exceeded {MAX_ANSWER_LENGTH:,} characters and was stopped.")
            return replace(event, text="")
        text = "".join(call.pieces)
        call.pieces.clear()
        return replace(event, text=text)

    def finish(self) -> list[WorkerEvent]:
        """Return the events with the arguments that are still held back; call this at the end of the answer."""
        return [event for index in tuple(self._calls) for event in self._finish_call(index)]

    def _finish_call(self, index: int) -> list[WorkerEvent]:
        call = self._calls.pop(index, None)
        text = "".join(call.pieces) if call is not None else ""
        if call is None or not text:
            return []
        return [WorkerToolCallDelta(self._call_id, index, text=_replace_names(text, self._names.get(call.name, {})))]
