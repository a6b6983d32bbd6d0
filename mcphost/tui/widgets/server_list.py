"""Sidebar with the state and the number of tools of each server.

A click on a row opens that server's screen.
"""

from typing import NamedTuple

from textual import events
from textual._cells import cell_len
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line, render_with_blank_rows
from mcphost.tui.widget_messages import ActionRequested, ServerSelected
from mcphost.tui.widgets.laid_out_once import LaidOutOnce

# Maps the state of a server to a mark, a label and a style.
STATES: dict[str, tuple[str, str, str]] = {
    "waiting": ("◌", N_("waiting"), "$faint"),
    "untrusted": ("◆", N_("not approved"), "$warning"),
    "connecting": ("◌", N_("starting…"), "$muted"),
    "silent": ("◌", N_("not answering"), "$warning"),
    "ready": ("●", "", "$success"),
    "unreachable": ("◌", N_("unreachable"), "$warning"),
    "sign_in": ("◆", N_("sign-in needed"), "$warning"),
    "failed": ("✕", N_("failed"), "$error"),
    "stopped": ("■", N_("stopped"), "$muted"),
    "disabled": ("○", N_("disabled"), "$faint"),
}


def describe_starting(state: str, seconds: float, *, is_remote: bool = False) -> str:
    """Return a label for a server's state, with the elapsed seconds while the server is starting.

    If *is_remote* is true, the server has a URL, and the label says "connecting" instead of "starting".
    """
    if state != "connecting":
        return _(STATES.get(state, STATES["waiting"])[1])
    if seconds < 1:
        return _("connecting…") if is_remote else _(STATES["connecting"][1])
    text = _("connecting · {seconds} s") if is_remote else _("starting · {seconds} s")
    return text.format(seconds=int(seconds))


EXPIRY_LABELS = {"soon": N_("sign-in ends"), "ended": N_("sign-in ended")}


_EXTRA_ROWS = 10
"""Rows in addition to those of servers: padding, heading, blank rows, resources, prompts, tasks and other text."""


class ServerRow(NamedTuple):
    """The values that the sidebar shows for one server.

    `tools`, `resources` and `prompts` are counts. `validity` is "soon" if the sign-in ends soon, and "ended" if it has
    ended.
    """

    name: str
    state: str
    tools: int = 0
    resources: int = 0
    prompts: int = 0
    account: str = ""
    validity: str = ""
    is_signing_in: bool = False
    starting_seconds: int = 0
    is_remote: bool = False


class ServerList(LaidOutOnce, Widget):
    """Sidebar with a row for each server, and the numbers of resources, prompts and running tool calls."""

    DEFAULT_CSS = "ServerList { width: 24; height: 1fr; background: $surface; padding: 1 1; }"

    def __init__(self) -> None:
        super().__init__(id="servers")
        self.rows: tuple[ServerRow, ...] = ()
        self.running = 0
        """The number of running tool calls."""

        self._reason = N_("Reading…")
        """The text that is shown if there are no rows, such as the reason why there are none."""

    def show(self, rows: tuple[ServerRow, ...], running: int = 0, *, is_unreadable: bool = False) -> None:
        """Show *rows* and the number of running tool calls; do nothing if nothing has changed.

        *is_unreadable* is true if a configuration file with servers could not be read.
        """
        reason = (
            N_("mcp.json cannot be read. The chat says why.")
            if is_unreadable
            else N_("None yet. {servers} shows how to add one.")
        )
        if (rows, running, reason) != (self.rows, self.running, self._reason):
            self.rows, self.running, self._reason = rows, running, reason
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Render the rows in *crop*; the blank rows below the content share one Strip object to save memory."""
        return render_with_blank_rows(super().render_lines, crop, _EXTRA_ROWS + len(self.rows))

    def render(self) -> Content:
        """Return the heading, a row for each server, and a summary.

        The summary contains the numbers of resources, prompts and running tool calls.
        """
        width = max(8, self.size.width)
        lines = [Content.styled(_("Servers"), "bold $muted"), Content("")]
        if not self.rows:
            lines.append(Content.styled(keys_in_use(self).fill(_(self._reason)), "$faint"))
        room = max(1, self.size.height - 9)
        lines.extend(self._render_row(row, width) for row in self.rows[:room])
        if len(self.rows) > room:
            lines.append(Content.styled(_("… {rows_count} more").format(rows_count=len(self.rows) - room), "$faint"))
        lines.append(Content(""))
        offers = (
            (_("Resources"), sum(row.resources for row in self.rows), "resources"),
            (_("Prompts"), sum(row.prompts for row in self.rows), "prompts"),
            (_("Tasks"), _("{running} running").format(running=self.running) if self.running else "", "tasks"),
        )
        for name, count, action in offers:
            left = Content.assemble(("▸ ", "$accent"), (name, "$text"))
            line = _justify_ends(left, Content.styled(str(count), "$faint"), width)
            lines.append(line.stylize(Style.from_meta({"run": action})))
        return Content("\n").join(lines)

    def _render_row(self, row: ServerRow, width: int) -> Content:
        from mcphost.unicode_forms import (
            describe_name_risk,
        )  # not imported at startup, because the first frame has no rows

        mark, label, style = STATES.get(row.state, STATES["waiting"])
        word = _(label)
        if describe_name_risk(row.name):
            mark, style = "▲", "$warning"
        if row.is_signing_in:
            word, style = _("signing in…"), "$accent"
        elif not word and row.validity in EXPIRY_LABELS:
            word, style = _(EXPIRY_LABELS[row.validity]), "$warning"
        elif row.state == "connecting":
            word = describe_starting(row.state, row.starting_seconds, is_remote=row.is_remote)
            if row.starting_seconds and cell_len(row.name) + cell_len(word) + 3 > width:
                word = _("{seconds} s").format(seconds=row.starting_seconds)
        right = Content.styled(word, style) if word else self._render_summary(row, width)
        name = Content(clean_line(row.name, 40)).truncate(max(3, width - right.cell_length - 4), ellipsis=True)
        line = _justify_ends(Content.assemble((f"{mark} ", style), name), right, width)
        return line.stylize(Style.from_meta({"server": row.name}))

    def _render_summary(self, row: ServerRow, width: int) -> Content:
        """Return the name of the server's account, if there is enough room, and the number of its tools."""
        room = width - len(row.name) - len(str(row.tools)) - 6
        who = clean_line(row.account, 40)
        shown = Content(who).truncate(room, ellipsis=True) if room >= 4 and who else Content("")
        return Content.assemble((shown.plain, "$muted"), " " if shown.plain else "", (str(row.tools), "$faint"))

    def on_click(self, event: events.Click) -> None:
        """Post a message that opens the clicked server, or the resources, prompts or tasks screen."""
        if server := event.style.meta.get("server"):
            self.post_message(ServerSelected(str(server)))
        elif action := event.style.meta.get("run"):
            self.post_message(ActionRequested(str(action)))


def _justify_ends(left: Content, right: Content, width: int) -> Content:
    return Content.assemble(left, " " * max(1, width - left.cell_length - right.cell_length), right)
