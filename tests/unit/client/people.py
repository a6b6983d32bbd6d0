"""Who stands on the host's side of a session in these tests."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mcphost.client.session import AskContext
from mcphost.protocol.notifications import LogMessage
from mcphost.protocol.server_requests import Ask, AskDeclined, Reply


class Answers:
    """A Responder that gives prepared replies by method and remembers what it was asked."""

    def __init__(self, replies: dict[str, Reply] | None = None) -> None:
        self.replies = replies or {}
        self.asked: list[tuple[Ask, AskContext]] = []
        self.done: list[str] = []
        self.given_up: list[str] = []
        names = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
        self.capabilities: dict[str, Any] = {names[method]: {} for method in self.replies}

    async def answer(self, ask: Ask, context: AskContext) -> Reply:
        self.asked.append((ask, context))
        return self.replies.get(ask.METHOD, AskDeclined("nobody answers"))

    def running(self, context: AskContext) -> AbstractContextManager[None]:
        return nullcontext()

    async def prepare(self, context: AskContext) -> bool:
        return False

    def still(self, reply: Reply) -> Reply:
        return reply

    def taken_back(self, method: str) -> None:
        self.given_up.append(method)

    def completed(self, elicitation: str) -> None:
        self.done.append(elicitation)


class Notes:
    """An Observer that keeps everything."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.logged: list[LogMessage] = []
        self.warnings: list[str] = []
        self.accounts: list[Any] = []
        self.over: list[int] = []

    def stderr(self, line: str) -> None:
        self.lines.append(line)

    def log(self, message: LogMessage) -> None:
        self.logged.append(message)

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def signed_in(self, account: Any) -> None:
        self.accounts.append(account)

    def call_over(self, number: int) -> None:
        self.over.append(number)
