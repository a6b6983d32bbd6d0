"""Tasks screen, which lists running calls, open pages (MCP Apps), subscriptions, and MCP tasks from earlier runs.

The user opens it with `/tasks` or with a click on "Tasks" in the sidebar.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.errors import McpHostError
from mcphost.host.server_views import OpenedPage
from mcphost.host.servers.orphaned_tasks import OrphanedTask
from mcphost.host.servers.running_calls import RunningCall
from mcphost.local_time import format_moment
from mcphost.pluralize import format_duration
from mcphost.serialization import Struct
from mcphost.translation import N_, _
from mcphost.tui.chat.page_address import forward_command
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widget_messages import BackgroundRequested, CopyRequested

if TYPE_CHECKING:
    from mcphost.host.host import Host

UPDATE_SECONDS = 0.5
"""Seconds after which running calls are redrawn, no matter how often servers report progress."""

_BAR_CELLS, _WIDE_BAR_CELLS = 8, 20


class SubscribedResource(Struct, frozen=True):
    """A resource of a server to which mcphost is subscribed."""

    server: str
    uri: str


TaskItem = RunningCall | OpenedPage | SubscribedResource | OrphanedTask


def format_progress(call: RunningCall) -> str:
    """Return a call's progress as text, or "" if none was reported."""
    event = call.progress
    if event is None:
        return ""
    if event.total:
        return f"{event.progress:g}/{event.total:g}  {event.message}".rstrip()
    return f"{event.progress:g}  {event.message}".rstrip() if event.progress or not event.message else event.message


def draw_progress(call: RunningCall, cells: int = _BAR_CELLS) -> str:
    """Return a progress bar of *cells* cells followed by the percentage, or "" if the server has reported no total.

    The percentage is padded to a fixed width, so that all bars with the same number of cells align.
    """
    event = call.progress
    if event is None or not event.total:
        return ""
    share = max(0.0, min(1.0, event.progress / event.total))
    filled = max(1 if share else 0, round(share * cells))
    return f"{'━' * filled}{'─' * (cells - filled)} {share:>4.0%}"


def _item_key(item: TaskItem) -> tuple[str, ...]:
    match item:
        case RunningCall():
            return "call", item.call
        case OpenedPage():
            return "page", str(item.number)
        case SubscribedResource():
            return "resource", item.server, item.uri
        case OrphanedTask():
            return "task", item.record.task.server_digest, item.record.task.task_id


_IN_BACKGROUND = N_("in the background; its result enters the conversation when it ends")
_WHO = {
    "user": N_("you"),
    "earlier": N_("an earlier run"),
    "page": N_("a page of the server"),
}


def _describe_orphan(item: OrphanedTask) -> str:
    if item.is_followed_elsewhere:
        return _("is followed by another mcphost")
    return _("waits for its server")


def _describe_page(item: OpenedPage) -> str:
    state = _("{server} · page, shown by a browser") if item.is_shown else _("{server} · page, no browser shows it")
    return state.format(server=item.server)


class TasksScreen(ListScreen):
    """List of running tool calls, open pages (MCP Apps), subscribed resources, and MCP tasks left by earlier runs.

    A task from an earlier run may still be running on its server.
    """

    TITLE_TEXT: ClassVar[str] = N_("Tasks")
    EMPTY_TEXT: ClassVar[str] = N_(
        "Nothing is running.\n\nTool calls are listed here while they run, with their progress, and can be "
        "cancelled. Open pages of tools, subscribed resources, and tasks that an earlier run left on a server are "
        "listed here too."
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("x", N_("cancel (twice)"), "screen.cancel"),
        ("b", N_("run in background"), "screen.background"),
        ("c", N_("copy a page's address"), "screen.copy_address"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel", show=False, id="tasks-cancel"),
        Binding("b", "background", show=False, id="tasks-background"),
        Binding("c", "copy_address", show=False, id="tasks-copy"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._orphaned: tuple[OrphanedTask, ...] = ()
        self._cancel_candidate: tuple[str, ...] = ()
        self.add_class("bare")

    def on_mount(self) -> None:
        """Show the running calls, load the tasks from earlier runs, and keep the list up to date."""
        super().on_mount()
        self.run_worker(self._load_orphaned, group="stored", exclusive=True)
        self.set_interval(UPDATE_SECONDS, self._update)

    async def _load_orphaned(self) -> None:
        try:
            self._orphaned = await self.host.orphaned_tasks.list_orphaned()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self.reload()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each running call, open page, subscribed resource and task from an earlier run, in order."""
        calls = self.host.running_calls.list()
        # Bars of the same width, so that the texts after them align.
        column = 0 if is_reader(self) else max((len(draw_progress(call)) for call in calls), default=0)
        return [
            *(self._call_row(call, column) for call in calls),
            *(ListRow(item, item.tool, _describe_page(item), "▣") for item in self.host.open_pages),
            *(
                ListRow(item, item.uri, self._describe_subscription(item), "↻", "$muted")
                for item in self._subscribed_resources()
            ),
            *(
                ListRow(
                    item,
                    item.record.task.tool,
                    f"{item.record.task.server} · {_describe_orphan(item)}",
                    "◌",
                    "$muted",
                )
                for item in self._orphaned
            ),
        ]

    def _call_row(self, call: RunningCall, column: int) -> ListRow:
        """Return the row for a tool call; its detail line begins with a progress bar if the total is known.

        The bar with its percentage is padded to *column* cells. If *column* is 0, no bar is shown.
        """
        where = _("in the background") if call.is_in_background else ""
        parts = (call.server, format_duration(call.seconds), where, format_progress(call))
        drawn = draw_progress(call) if column else ""
        bar = f"{drawn:<{column}}  " if drawn else ""
        text = " · ".join(filter(None, parts))
        return ListRow(call, call.tool, f"{bar}{text}", "◌" if call.is_in_background else "◐")

    def _describe_subscription(self, item: SubscribedResource) -> str:
        is_active = item.uri in self.host.features.active_uris(item.server)
        text = _("{server} · subscribed") if is_active else _("{server} · subscription interrupted")
        return text.format(server=item.server)

    def _subscribed_resources(self) -> list[SubscribedResource]:
        return [
            SubscribedResource(view.name, uri)
            for view in self.host.servers.views()
            for uri in self.host.features.subscribed_uris(view.name)
        ]

    def _update(self) -> None:
        """Redraw rows whose progress or time has changed; reload the list if rows were added or removed."""
        rows = list(self.load())
        if [_item_key(row.value) for row in rows] != [_item_key(row.value) for row in self.entries]:
            ended = {_item_key(row.value) for row in self.entries} - {_item_key(row.value) for row in rows}
            if any(key[0] == "call" for key in ended):  # a call that ended may have created or completed a stored task
                self.run_worker(self._load_orphaned, group="stored", exclusive=True)
            self.reload()
            return
        if is_reader(self):
            return  # only the times differ
        self.entries = rows
        fresh = {_item_key(row.value): row for row in rows}
        for number, row in enumerate(self.visible_rows):
            new = fresh[_item_key(row.value)]
            if new[1:] != row[1:]:
                self.visible_rows[number] = new
                self.list_widget.replace_entry(number, self.render_row(new))
                if number == self.list_widget.cursor and not self._cancel_candidate:
                    self._show_item(new.value)

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        """Return a (key, label, action) tuple for each key that works for the selected entry."""
        row = self.current_row() if self.visible_rows else None  # the list does not exist yet in `compose`
        unused: set[str] = set()
        if row is not None and not isinstance(row.value, OpenedPage):
            unused.add("screen.copy_address")
        if row is not None and not isinstance(row.value, RunningCall):
            unused.add("screen.background")
        return tuple(key for key in super()._key_bar_items() if key[2] not in unused)

    # -- details
    def show_details(self, row: ListRow) -> None:
        """Show the details of a running call, an open page, a subscription, or a task from an earlier run."""
        self._cancel_candidate = ()
        self._show_item(row.value)
        self.update_key_bar()

    def _show_item(self, item: TaskItem) -> None:
        match item:
            case RunningCall():
                pairs = [
                    (_("tool"), item.tool),
                    (_("server"), item.server),
                    (_("running for"), format_duration(item.seconds)),
                    (_("progress"), "  ".join(filter(None, (self._draw_wide(item), format_progress(item))))),
                    (_("by"), _(_WHO.get(item.by, N_("the model")))),
                    (_("state"), _(_IN_BACKGROUND) if item.is_in_background else ""),
                    (_("task"), item.task_id),
                    # An id that a model or mcphost made up; only the former also appears in exports.
                    (_("call"), "" if item.by in _WHO else item.call),
                ]
            case OpenedPage():
                pairs = [
                    (_("page"), item.uri),
                    (_("tool"), item.tool),
                    (_("server"), item.server),
                    (_("state"), _("a browser shows it") if item.is_shown else _("no browser shows it")),
                    (_("address"), item.url),
                    (_("forwarding"), forward_command(item.port, os.environ)),
                ]
            case SubscribedResource():
                pairs = [
                    (_("resource"), item.uri),
                    (_("server"), item.server),
                    (_("state"), _("its changes are reported")),
                ]
            case OrphanedTask():
                task = item.record.task
                pairs = [
                    (_("tool"), task.tool),
                    (_("server"), task.server),
                    (
                        _("state"),
                        _("left on the server by an earlier run; it {item}").format(item=_describe_orphan(item)),
                    ),
                    (_("since"), format_moment(item.record.created)),
                    (_("expires"), format_moment(task.expires or 0)),
                    (_("conversation"), task.conversation_id[:12]),
                    (_("task"), task.task_id),
                ]
        self.show_about(clean_pairs(pairs))

    def _draw_wide(self, call: RunningCall) -> str:
        return "" if is_reader(self) else draw_progress(call, _WIDE_BAR_CELLS)

    # -- background and cancelling
    def action_background(self) -> None:
        """Move the selected call to the background, so that the model's turn does not wait for it."""
        row = self.current_row()
        if row is not None and isinstance(row.value, RunningCall) and not row.value.is_in_background:
            self.post_message(BackgroundRequested(row.value.call))
        elif row is not None:
            self.notify(_("Nothing is waiting for it."), markup=False, timeout=3)

    def action_cancel(self) -> None:
        """Cancel the selected call, close the selected page, or end the selected subscription.

        The first key press only explains the effect. If an MCP task from an earlier run is selected, only mcphost's
        record of the task is deleted; the task continues on its server.
        """
        row = self.current_row()
        if row is None:
            return
        item: TaskItem = row.value
        if self._cancel_candidate != _item_key(item):
            self._cancel_candidate = _item_key(item)
            told = ""
            match item:
                case RunningCall():
                    is_for_model = item.by not in _WHO
                    told = _(" The model is told that you cancelled it.") if is_for_model else ""
                    text = _("Press {tasks-cancel} again to cancel the call.{told}")
                case OpenedPage():
                    text = _("Press {tasks-cancel} again to close the page.")
                case SubscribedResource():
                    text = _("Press {tasks-cancel} again to end the subscription.")
                case OrphanedTask():
                    text = _(
                        "Press {tasks-cancel} again to forget the task. It continues on the server, but its result "
                        "will not be read."
                    )
            self.show_about(Content.styled(fill_keys(self, text, told=told), "$warning"))
            return
        self._cancel_candidate = ()
        match item:
            case RunningCall():
                self.host.running_calls.cancel(item.call)
                self.notify(_("Cancelling…"), markup=False, timeout=2)
            case OpenedPage():
                self.host.pages.close(item.number)
            case SubscribedResource():
                self.run_worker(partial(self._unsubscribe, item), group="cancel")
            case OrphanedTask():
                self.run_worker(partial(self._forget, item), group="cancel")

    def action_copy_address(self) -> None:
        """Copy the URL of the selected page to the clipboard."""
        row = self.current_row()
        if row is not None and isinstance(row.value, OpenedPage):
            self.post_message(CopyRequested(row.value.url))

    async def _unsubscribe(self, item: SubscribedResource) -> None:
        try:
            await self.host.features.unsubscribe(item.server, item.uri)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self.reload()

    async def _forget(self, item: OrphanedTask) -> None:
        try:
            await self.host.orphaned_tasks.forget(item.record.task)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        await self._load_orphaned()
