"""The figures of the top line and of the list at the side: kept from events, put together from what the host is now."""

from collections.abc import Iterable
from time import monotonic
from typing import TYPE_CHECKING

from mcphost.host.events import HostEvent, MessageFinished, ModelChanged, TurnStarted
from mcphost.host.views import ServerView
from mcphost.llm.messages import Message, Usage
from mcphost.tui.widgets.server_list import ServerRow
from mcphost.tui.widgets.status_bars import Status

if TYPE_CHECKING:
    from mcphost.client.session import Account
    from mcphost.host.host import Host


class Figures:
    """What only events tell: tokens and cost of the conversation, since when a turn runs, the state of the model."""

    def __init__(self) -> None:
        self.model_state = "none"
        self._usage = Usage()
        self._context = 0
        self._since = 0.0

    def resume(self, messages: Iterable[Message]) -> None:
        """Start from what the stored messages of another conversation say they used."""
        self._usage, self._context = Usage(), 0
        for message in messages:
            if message.usage is not None:
                self._add(message.usage)

    def _add(self, usage: Usage) -> None:
        self._usage += usage
        self._context = usage.input_tokens + usage.output_tokens

    def hear(self, event: HostEvent) -> None:
        """One event of the host."""
        match event:
            case MessageFinished():
                self._add(event.usage)
            case ModelChanged():
                self.model_state = event.state
            case TurnStarted():
                self._since = monotonic()
            case _:
                pass

    def status(self, host: "Host", views: tuple[ServerView, ...], *, phase: str, waiting: int, demo: bool) -> Status:
        """The top line; `phase` is what the turn is at, `waiting` the number of open questions."""
        model = host.model
        window = model.facts.context_window if model is not None else 0
        elapsed = monotonic() - self._since
        activity = phase if host.busy else ""
        if activity and elapsed >= 1:
            activity = f"{activity} · {elapsed:.0f} s"
        return Status(
            model=model.label if model is not None else "",
            model_state="none" if model is None else self.model_state,
            ready=sum(view.state == "ready" for view in views),
            servers=sum(view.state != "disabled" for view in views),
            tools=sum(len(view.catalog.tools) - len(view.off) for view in views if view.state == "ready"),
            tokens=self._usage.input_tokens + self._usage.output_tokens,
            cost=self._usage.cost,
            context=self._context / window if window and self._context else -1,
            waiting=waiting,
            activity=activity,
            demo=demo,
        )


def row(view: ServerView) -> ServerRow:
    """One server in the list at the side."""
    return ServerRow(
        view.name,
        view.state,
        tools=len(view.catalog.tools),
        resources=len(view.catalog.resources) + len(view.catalog.templates),
        prompts=len(view.catalog.prompts),
        account=view.account.name if view.account else "",
        validity=_validity(view.account) if view.account else "",
        signing=bool(view.signing),
        starting=int(view.starting),
    )


def ends(view: ServerView) -> bool:
    """Whether its sign-in ends by itself: no event tells of that."""
    return bool(view.account and view.account.expires and not view.account.renews)


def _validity(account: "Account") -> str:
    from mcphost.host.servers.accounts import validity  # with the first account

    return validity(account)
