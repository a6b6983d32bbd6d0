"""Fakes for the objects with which a session reports to its host."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mcphost.client.session import ServerRequestContext
from mcphost.errors import ServerError
from mcphost.message_log import MessageLog
from mcphost.protocol.notifications import LoggingMessageNotification
from mcphost.protocol.server_requests import ClientResult, ServerRequest, ServerRequestRejection


class FakeRequestHandler:
    """A RequestHandler that has one prepared reply for each method and records the server's requests."""

    def __init__(self, replies: dict[str, ClientResult] | None = None) -> None:
        self.replies = replies or {}
        self.asked: list[tuple[ServerRequest, ServerRequestContext]] = []
        self.completed_elicitations: list[str] = []
        self.cancelled_methods: list[str] = []
        names = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
        self.capabilities: dict[str, Any] = {names[method]: {} for method in self.replies}

    async def answer(self, request: ServerRequest, context: ServerRequestContext) -> ClientResult:
        self.asked.append((request, context))
        return self.replies.get(request.METHOD, ServerRequestRejection("nobody answers"))

    def track_request(self, context: ServerRequestContext) -> AbstractContextManager[None]:
        return nullcontext()

    async def prepare(self, context: ServerRequestContext) -> bool:
        return False

    def filter_reply(self, reply: ClientResult) -> ClientResult:
        return reply

    def on_request_cancelled(self, method: str) -> None:
        self.cancelled_methods.append(method)

    def on_elicitation_complete(self, elicitation: str) -> None:
        self.completed_elicitations.append(elicitation)


class RecordingObserver:
    """A SessionObserver that records everything a session reports."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.logged: list[LoggingMessageNotification] = []
        self.warnings: list[str] = []
        self.accounts: list[Any] = []
        self.ended_calls: list[int] = []
        self.reachability: list[ServerError | None] = []
        self.message_log: MessageLog | None = None

    def stderr(self, line: str) -> None:
        self.lines.append(line)

    def log(self, message: LoggingMessageNotification) -> None:
        self.logged.append(message)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def on_account_changed(self, account: Any) -> None:
        self.accounts.append(account)

    def on_reachability_changed(self, error: ServerError | None) -> None:
        self.reachability.append(error)

    def on_call_ended(self, number: int) -> None:
        self.ended_calls.append(number)
