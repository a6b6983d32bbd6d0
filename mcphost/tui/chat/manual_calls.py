"""Manual tool calls, which the user makes without the model.

The user types `!server/tool key=value`, or fills in a form.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import time
from typing import TYPE_CHECKING, Any, NamedTuple

from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.translation import _
from mcphost.tui.key_table import keys_in_use

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.host import Host
    from mcphost.host.server_views import ManualCallResult
    from mcphost.llm.messages import ImagePart, Part, ResourcePart
    from mcphost.protocol.tools import Tool
    from mcphost.store.manual_calls import StoredManualCall
    from mcphost.tui.transcript.presenter import TranscriptPresenter
    from mcphost.tui.transcript.tool_card import ToolCard


class ManualCall(NamedTuple):
    """A tool call that the user typed as `!server/tool …`, parsed into its fields.

    `typed_names` are the names of `key=value` pairs, which may be misspelt; () for a JSON object or a form.
    """

    server: str
    tool: str
    arguments: dict[str, Any]
    typed_names: tuple[str, ...] = ()


def make_result_attachment(call: ManualCall, text: str, target: str = "") -> "ResourcePart":
    """Return an attachment that describes a manual tool call and contains its result *text*.

    *target* is the digest of the server's program or URL at the time of the call; see `Message.servers`.
    """
    from mcphost.llm.messages import make_result_part
    from mcphost.serialization import dumps

    told = f"The user called the tool {call.tool} of {call.server} with the arguments {dumps(call.arguments)}."
    return make_result_part(call.server, call.tool, f"{told} Its result:\n\n{text}", target)


def parse_value(text: str) -> Any:
    """Parse *text* as JSON; return it unchanged as a string if it is not valid JSON."""
    from mcphost.serialization import loads

    try:
        return loads(text, "value")
    except MalformedMessage:
        return text


def parse_manual_call(line: str) -> ManualCall:
    """Parse a line such as `!server/tool key=value key="two words" key='{"json": 1}'`.

    A single JSON object may follow the tool instead of the `key=value` pairs. Raises UsageError if the syntax is
    wrong. Also raises UsageError if the text has more than one line, because the composer shows only ten rows, and
    a longer text could hide a part of the call from the user.
    """
    if len(line.splitlines()) > 1:
        said = _("Write a line break as \\n in JSON, or put a space before the text to send it as a message.")
        raise UsageError(_("A manual call is one line."), said)
    body = line.strip().removeprefix("!").strip()
    head, _unused, rest = body.partition(" ")
    server, slash, tool = head.partition("/")
    if not slash or not server or not tool:
        raise UsageError(_("A manual call needs a server and a tool."), _("Write !server/tool key=value."))
    rest = rest.strip()
    if rest.startswith("{"):
        value = parse_value(rest)
        if isinstance(value, dict):
            return ManualCall(server, tool, value)  # pyright: ignore[reportUnknownArgumentType]
        raise UsageError(_("The arguments are not valid JSON."), _("Write them as key=value, or as one JSON object."))
    import shlex  # needed only for calls with arguments

    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(
            _("The arguments cannot be read: {error}.").format(error=error), _("Close every quotation mark.")
        ) from error
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(
                _('"{word}" is not key=value.').format(word=word), _("Put a value with spaces in quotation marks.")
            )
        arguments[key] = parse_value(value)
    return ManualCall(server, tool, arguments, tuple(arguments))


class _Result(NamedTuple):
    """The result of a manual call.

    `at` is the time of the call, and `conversation` the id of the conversation in which it was made.
    """

    call: ManualCall
    result: "ManualCallResult"
    at: float
    conversation: str

    @property
    def key(self) -> tuple[str, str, float]:
        """The server, the tool and the time, which together identify the result."""
        return self.call.server, self.call.tool, self.at


class ManualCallRunner:
    """Runner for manual tool calls.

    Each call has a card in the transcript and runs in a worker of the chat screen.
    """

    def __init__(self, screen: "Screen[None]", host: "Host", presenter: "TranscriptPresenter") -> None:
        self._screen, self._host, self._presenter = screen, host, presenter
        self._count = 0
        self._result: _Result | None = None
        self._attached: set[tuple[str, str, float]] = set()  # the server, the tool and the time of attached results
        self._is_attaching = False
        self._is_attach_known = False

    def run_line(self, text: str) -> bool:
        """Run a line such as `!server/tool key=value`.

        If the tool requires arguments and the line has none, open the form for them. If the line cannot be parsed, add
        a notice with the error to the transcript and return False.
        """
        try:
            call = parse_manual_call(text)
        except McpHostError as error:
            self._presenter.add_notice("warning", error.message, error.hint)
            return False
        is_bare = " " not in text.strip().removeprefix("!").strip()
        if is_bare and (tool := self._find_tool_to_fill_in(call)) is not None:
            self._open_form(call.server, tool)
        else:
            self.start(call)
        return True

    def _find_tool_to_fill_in(self, call: ManualCall) -> "Tool | None":
        """Return the called tool if it is available and requires arguments."""
        from mcphost.host.questions.forms import requires_arguments

        try:
            view = self._host.servers.view(call.server)
        except UsageError:
            return None  # the call reports it
        tool = next((one for one in view.catalog.tools if one.name == call.tool), None)
        if tool is None or tool.name in view.quarantined or not requires_arguments(tool.input_schema):
            return None
        return tool

    def _open_form(self, server: str, tool: "Tool") -> None:
        from mcphost.tui.dialogs.edit_arguments import CallToolDialog

        def leave(arguments: dict[str, Any] | None) -> None:
            if arguments is not None:
                self.start(ManualCall(server, tool.name, arguments))

        self._screen.app.push_screen(CallToolDialog(server, tool), leave)  # pyright: ignore[reportUnknownMemberType]

    def start(self, call: ManualCall) -> None:
        """Call a tool in the background, and show the call in the transcript.

        `/attach` can then attach the result to the next message.
        """
        from mcphost.tui.transcript.tool_card import ToolCard

        card = ToolCard(self._host.tools.make_call_id(), call.server, call.tool, call.arguments)
        card.start(call.arguments, "user")
        self._presenter.add_manual_call(card)
        self._screen.run_worker(partial(self._run, card, call.typed_names), group="hand")

    @property
    def is_running(self) -> bool:
        """Whether a call is running."""
        return self._count > 0

    def stop(self) -> bool:
        """Cancel all running calls; return False if there are none."""
        running = self.is_running
        self._screen.workers.cancel_group(self._screen, "hand")  # pyright: ignore[reportUnknownMemberType]
        return running

    def attach_result(self, attach: "Callable[[Part], None]") -> None:
        """Attach the latest result that has not been attached yet, by passing its parts to *attach*.

        The user's hooks are run on the result first. Only results of calls in the open conversation are considered:
        first the latest one since mcphost was started, then those stored with the conversation, newest first. If all of
        them have been attached, show a notification. Do nothing while another result is being attached.
        """
        if self._is_attaching:
            return
        self._is_attach_known = True
        latest = self._result if self._result is not None and self._is_open(self._result) else None
        taken = latest or self._find_stored_result()
        if taken is None:
            way = keys_in_use(self._screen).fill(_("Call a tool first: press {servers}, then {servers-tools}."))
            known = ((one.server, one.tool, one.at) for one in self._host.conversation.manual_calls)
            is_attached = any(key in self._attached for key in known)
            text = (
                _("There is no other result to attach. {way}")
                if is_attached
                else _("There is no result to attach. {way}")
            )
            self._screen.notify(text.format(way=way), markup=False, timeout=6)
        else:
            self._is_attaching = True
            self._screen.run_worker(partial(self._attach, taken, attach), group="attach")

    def _is_open(self, taken: _Result) -> bool:
        return taken.conversation == self._host.conversation.id

    def _find_stored_result(self) -> _Result | None:
        from mcphost.host.server_views import ManualCallResult
        from mcphost.protocol.tools import CallToolResult

        for stored in reversed(self._host.conversation.manual_calls):
            key = (stored.server, stored.tool, stored.at)
            if stored.outcome in {"ok", "error"} and key not in self._attached:
                result = ManualCallResult(
                    CallToolResult(is_error=stored.outcome == "error"),
                    stored.text,
                    stored.seconds,
                    arguments=stored.arguments,
                    images=stored.images,
                    model_text=stored.model_text,
                    model_images=tuple(image for at, image in enumerate(stored.images) if at not in stored.user_images),
                    target=stored.target,
                )
                call = ManualCall(stored.server, stored.tool, stored.arguments)
                return _Result(call, result, stored.at, self._host.conversation.id)
        return None

    async def _attach(self, taken: _Result, attach: "Callable[[Part], None]") -> None:
        from mcphost.llm.messages import with_target

        call = taken.call
        try:
            released = await self._host.tools.release(call.server, call.tool, taken.result)
            if not self._is_open(taken):
                return  # another conversation was opened meanwhile
            attach(make_result_attachment(call, released.text, taken.result.target))
            self._attached.add(taken.key)
            if self._result is taken:
                self._result = None
            for image in await self._fit_images(call, released.images):
                if self._is_open(taken):
                    attach(with_target(image, {call.server: taken.result.target}))
        except McpHostError as error:
            self._presenter.add_notice("warning", error.message, error.hint)
        finally:
            self._is_attaching = False

    async def _fit_images(self, call: ManualCall, images: "Sequence[ImagePart]") -> "tuple[Part, ...]":
        """Return the images of a result in a form that the model accepts.

        If the model accepts no images, add a notice to the transcript and return ().
        """
        from mcphost.llm.model import ModelFacts
        from mcphost.serialization import replace

        model = self._host.model_selection.model
        facts = ModelFacts() if model is None else model.facts
        if images and facts.supports_images is False:
            self._presenter.add_notice(
                "warning",
                _("The model does not accept images, so only the text of the result is attached."),
                _("Choose a model with vision: /model."),
            )
            return ()
        named = [replace(one, name=f"tool:{call.tool}", server=call.server) for one in images]
        return await self._host.attachments.fit_parts(named, facts) if images else ()

    async def _run(self, card: "ToolCard", typed_names: tuple[str, ...]) -> None:
        self._count += 1
        add = self._host.conversation.start_manual_call()
        try:
            result = await self._host.tools.call(
                card.server, card.tool, card.arguments or {}, call=card.call, typed_names=typed_names
            )
        except McpHostError as error:
            self._presenter.fail_manual_call(card, "failed", str(error))
            add(_make_record(card, "failed", str(error)))
        except asyncio.CancelledError:
            self._presenter.fail_manual_call(card, "stopped", "")
            add(_make_record(card, "stopped", ""))
            raise
        else:
            record = _make_record(card, "error" if result.is_error else "ok", result.shown_text or result.text, result)
            call = ManualCall(card.server, card.tool, record.arguments)
            self._result = taken = _Result(call, result, record.at, add(record, result.page))
            if not result.result.is_error and self._is_open(taken):
                self._offer_to_attach()
        finally:
            self._count -= 1

    def _offer_to_attach(self) -> None:
        """Mention `/attach` in a notification, once per run, because a hint after every call would be annoying."""
        if not self._is_attach_known:
            self._is_attach_known = True
            self._screen.notify(_("/attach adds the result to your next message."), markup=False, timeout=6)


def _make_record(
    card: "ToolCard", outcome: str, text: str, result: "ManualCallResult | None" = None
) -> "StoredManualCall":
    """Return a record of an ended call, to be stored with the call's conversation.

    *outcome* is a key of `tool_card.STATES`, and *text* is the result or the error message. *result* is None if the
    call failed or was cancelled.
    """
    from mcphost.store.manual_calls import StoredManualCall

    arguments = card.arguments or {}
    if result is None:
        return StoredManualCall(card.server, card.tool, arguments, outcome, text, at=time())
    return StoredManualCall(
        card.server,
        card.tool,
        arguments if result.arguments is None else result.arguments,
        outcome,
        text,
        result.seconds,
        time(),
        result.images,
        model_text=None if result.model_text == text else result.model_text,
        user_images=result.find_user_images(),
        target=result.target,
        page="" if result.page is None else card.call,
    )
