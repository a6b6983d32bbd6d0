"""The top bar (model, servers, cost), the key bar at the bottom, and the warning bar for auto-approve."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual._cells import cell_len
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from mcphost.pluralize import translate_count
from mcphost.translation import N_, _, join_list, ngettext
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import ActionRequested
from mcphost.tui.widgets.laid_out_once import LaidOutOnce

if TYPE_CHECKING:
    from mcphost.host.consent.auto_approve import AutoApprovalStatus


class TopBarStatus(NamedTuple):
    """The values that the top bar shows.

    - `sent_tools`: the number of tools whose definitions are sent to the model, or -1 if all are sent.
    - `cost`: the cost in US dollars, or None if unknown.
    - `saved`: the amount in US dollars that the provider's prompt cache has saved.
    - `context`: the used fraction of the context window, from 0 to 1, or negative if unknown.
    - `context_parts`: the numbers of tokens in the last request for three kinds of content: instructions and tools;
      results and attachments; messages. All three are 0 if unknown.
    """

    model: str = ""
    profile: str = ""
    model_state: str = "none"
    ready: int = 0
    servers: int = 0
    tools: int = 0
    sent_tools: int = -1
    tokens: int = 0
    cost: float | None = None
    saved: float = 0
    context: float = -1
    context_parts: tuple[int, int, int] = (0, 0, 0)
    pending_questions: int = 0
    activity: str = ""
    demo: bool = False


_METER_CELLS = 8
_HIGH_USE = 0.8
_PART_STYLES = ("$accent", "$success", "$muted")
"""Colors of the meter: for instructions and tools, for results and attachments, and for messages."""
_MODEL_STATE_LABELS = {"loading": N_("loading…"), "failed": N_("not working"), "none": N_("no model")}


class TopBar(LaidOutOnce, Widget):
    """Bar with the model, activity, tokens, cost, context usage and servers.

    If the bar is too narrow, the least important of these values are omitted.
    """

    DEFAULT_CSS = "TopBar { height: 1; background: $surface; color: $text; padding: 0 1; }"
    status: reactive[TopBarStatus] = reactive(TopBarStatus())
    _model_end = 0
    """Width in columns of the left part of the bar, in which a click opens the models screen."""

    def render(self) -> Content:
        """Return the content of the bar for the current width; the least important values are omitted first."""
        status = self.status
        width = self.size.width
        left: list[Content] = [Content.styled("mcphost", "bold $accent")]
        if status.demo:
            left.append(Content.styled(_("demo (not an AI)"), "bold $warning"))
        model = clean_line(status.model, 48)
        if model and not (status.demo and "demo" in model.lower()):
            left.append(Content(model))
        if profile := clean_line(status.profile, 24):
            left[-1] = Content.assemble(left[-1], (f" · {profile}", "$muted"))
        state = _(_MODEL_STATE_LABELS.get(status.model_state, ""))
        if state:
            left.append(Content.styled(state, "$warning" if status.model_state != "loading" else "$muted"))
        if status.activity:
            activity = (
                status.activity.partition(" · ")[0] if is_reader(self) else status.activity
            )  # without the seconds
            left.append(Content.styled(clean_line(activity, 40), "$muted"))
        right = self._build_right_parts(status)
        gap = Content("  ")
        line = gap.join(left)
        while right and line.cell_length + sum(part.cell_length + 2 for part in right) + 1 > width:
            servers = _describe_servers(status, has_tools=False)
            if right[0].plain.startswith(servers.plain) and right[0].plain != servers.plain:
                right[0] = servers  # first without the tools, then not at all
            else:
                right.pop(0)
        self._model_end = gap.join(left[:3]).cell_length + 1
        tail = gap.join(right)
        line = line.truncate(max(1, width - tail.cell_length - 1), ellipsis=True)
        return Content.assemble(line, " " * max(1, width - line.cell_length - tail.cell_length), tail)

    def watch_status(self) -> None:
        """Redraw all screens between the chat and the top screen, which would otherwise still show the old bar."""
        for screen in self.app.screen_stack[1:-1]:  # pyright: ignore[reportUnknownMemberType]
            screen.refresh()

    def on_click(self, event: events.Click) -> None:
        """Open the context screen if the context meter was clicked, or the models screen if the model was clicked."""
        if name := event.style.meta.get("run"):
            event.stop()
            self.post_message(ActionRequested(str(name)))
        elif event.x < self._model_end:
            event.stop()
            self.post_message(ActionRequested("model"))

    def _build_right_parts(self, status: TopBarStatus) -> list[Content]:
        parts: list[Content] = []
        if status.tokens:
            parts.append(Content.styled(_("{tokens} tokens").format(tokens=_format_count(status.tokens)), "$faint"))
        if status.cost:  # 0 may also mean that the price is unknown
            parts.append(Content.styled(_format_dollars(status.cost), "$muted"))
            if status.saved >= 0.01:
                parts.insert(
                    0, Content.styled(_("cache saved {saved}").format(saved=_format_dollars(status.saved)), "$faint")
                )
        if status.context >= 0:
            parts.append(build_meter(status.context, status.context_parts, has_bar=not is_reader(self)))
        if status.servers:
            parts.append(_describe_servers(status))
        if status.pending_questions:
            parts.append(
                Content.styled(
                    _("◆ {pending_questions} waiting for you: {answer_key}").format(
                        pending_questions=status.pending_questions, answer_key=keys_in_use(self).long("answer")
                    ),
                    "bold $warning",
                )
            )
        return parts


def _describe_servers(status: TopBarStatus, *, has_tools: bool = True) -> Content:
    """Return the numbers of ready servers and of all servers, such as "2/3 servers".

    If *has_tools* is true, add the number of tools. If the definitions of only some tools are sent to the model, the
    number of these tools is added as well.
    """
    servers = ngettext("{ready}/{servers} server", "{ready}/{servers} servers", status.servers)
    shown = Content.styled(servers.format(ready=status.ready, servers=status.servers), "$muted")
    if not has_tools:
        return shown
    tools = ngettext(" · {tools} tool", " · {tools} tools", status.tools).format(tools=status.tools)
    sent = _(" ({sent_tools} sent)").format(sent_tools=status.sent_tools) if status.sent_tools >= 0 else ""
    return Content.assemble(shown, (tools, "$faint"), (sent, "$faint"))


def build_meter(used: float, tokens: tuple[int, int, int], *, has_bar: bool = True) -> Content:
    """Return a bar that shows the used part of the context window, with a color for each kind of content.

    *used* is a fraction from 0 to 1; *tokens* are counts as in `TopBarStatus.context_parts`. If *has_bar* is false,
    only the percentage is returned. Clicking the result opens the context screen, which explains the colors.
    """
    filled = min(_METER_CELLS, max(1, round(used * _METER_CELLS)))
    style = "$warning" if used > _HIGH_USE else "$muted"
    whole, ends, end = sum(tokens), [0], 0
    for part in tokens:
        end += part
        ends.append(round(filled * end / whole) if whole else filled)
    styles = _PART_STYLES if whole and used <= _HIGH_USE else (style,) * 3
    if not has_bar:
        return Content.assemble((_("ctx"), "$faint"), (f" {used:.0%}", style)).stylize(
            Style.from_meta({"run": "context"})
        )
    cells = [("━" * (last - first), color) for first, last, color in zip(ends, ends[1:], styles, strict=False)]
    bar = Content.assemble(
        (_("ctx "), "$faint"), *cells, ("─" * (_METER_CELLS - filled), "$faint"), (f" {used:.0%}", style)
    )
    return bar.stylize(Style.from_meta({"run": "context"}))


def _format_dollars(amount: float) -> str:
    return f"${amount:.2f}" if amount >= 0.01 or not amount else "<$0.01"


def _format_count(number: int) -> str:
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


# Keys shown below the chat while the transcript has the focus.
TRANSCRIPT_KEYS = (
    ("{conversation-previous} {conversation-next}", N_("step"), ""),
    ("{conversation-previous-message} {conversation-next-message}", N_("your messages"), ""),
    ("{conversation-open}", N_("open"), ""),
    ("{conversation-copy}", N_("copy"), ""),
    ("{conversation-copy-part}", N_("code or table"), ""),
    ("{conversation-edit}", N_("edit"), ""),
    ("{conversation-background}", N_("run in background"), ""),
    ("↑↓", N_("scroll"), ""),
    ("end", N_("newest"), ""),
    ("esc", N_("back to the message"), "screen.focus_message"),
)
# Actions of every list, whose keys are omitted first.
_COMMON_ACTIONS = ("app.focus_next", "screen.search")
# Actions whose keys stay visible when not all keys fit.
_ESSENTIAL_ACTIONS = {"palette", "help", "stop", "quit", "screen.leave", "screen.focus_message"}


def _split_into_rows(keys: Sequence[tuple[str, str, str]], width: int) -> list[list[tuple[str, str, str]]]:
    rows: list[list[tuple[str, str, str]]] = []
    used = 0
    for key in keys:
        cells = cell_len(key[0]) + cell_len(_(key[1])) + 3
        if not rows or used + cells - 2 > width:
            rows.append([])
            used = 0
        rows[-1].append(key)
        used += cells
    return rows


def _save_row(rows: list[list[tuple[str, str, str]]], width: int) -> list[list[tuple[str, str, str]]]:
    """Reduce two rows of keys to one by omitting keys that every list screen has; the help screen explains them.

    One of these keys is omitted if this is enough, otherwise all of them. If the other keys still do not fit into one
    row, *rows* is returned unchanged.
    """
    keys = [key for row in rows for key in row]
    for omitted in (*((action,) for action in _COMMON_ACTIONS), _COMMON_ACTIONS) if len(rows) == 2 else ():
        fewer = _split_into_rows([key for key in keys if key[2] not in omitted], width)
        if len(fewer) == 1:
            return fewer
    return rows


class KeyBar(LaidOutOnce, Widget):
    """Bar of clickable keys in at most *rows* rows; keys that do not fit are omitted.

    *keys* are (key, label, action) tuples. If there are none, the keys of the chat are shown, including the key that
    stops a response if `can_stop` is true.
    """

    can_stop: reactive[bool] = reactive(False, layout=True)
    DEFAULT_CSS = "KeyBar { height: auto; background: $background; padding: 0 1; }"

    def __init__(self, keys: tuple[tuple[str, str, str], ...] = (), rows: int = 1) -> None:
        super().__init__()
        self.rows = rows
        self.keys = keys

    def show(self, keys: tuple[tuple[str, str, str], ...]) -> None:
        """Show these (key, label, action) tuples, or the chat's keys if *keys* is ().

        Do nothing if the keys are already shown.
        """
        if keys != self.keys:
            self.keys = keys
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows that the keys take up at *width*."""
        del container, viewport
        return len(self._fit_rows(width))

    def list_keys(self) -> list[tuple[str, str, str]]:
        """Return the keys of the bar, including those that do not fit, as (key, label, action) tuples.

        Customized key bindings are taken into account; an action whose keys the user has removed is omitted.
        """
        table = keys_in_use(self)
        rows_in_use = table.resolve_rows(self.keys, self.screen._bindings)
        shown = ((table.fill(key, in_sentence=False), label, name) for _keys, (key, label, name) in rows_in_use)
        return [row for row in shown if row[0]]  # the user removed the keys of the others

    def _fit_rows(self, width: int) -> list[list[tuple[str, str, str]]]:
        keys = self.list_keys() or list(keys_in_use(self).footer(can_stop=self.can_stop))
        while len(rows := _split_into_rows(keys, width)) > self.rows and len(keys) > 1:
            spare = [key for key in keys if key[2] not in _ESSENTIAL_ACTIONS]
            keys.remove(spare[-1] if spare else keys[-1])
        return _save_row(rows, width)

    def render(self) -> Content:
        """Return the keys that fit, each with its label.

        While a modal screen, such as a consent prompt or form, covers the bar, only the keys that still work are
        included.
        """
        top = self.app.screen  # pyright: ignore[reportUnknownMemberType]
        is_covered = top is not self.screen and top.is_modal
        rows = [
            Content("  ").join(
                Content.assemble((shown, "$accent"), (f" {_(label)}", "$muted")).stylize(Style.from_meta({"run": name}))
                for shown, label, name in row
                if not is_covered or name == "quit"
            )
            for row in self._fit_rows(self.size.width)
        ]
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        """Run the action of the key that was clicked."""
        if name := event.style.meta.get("run"):
            self.post_message(ActionRequested(str(name)))


class AutoApprovalBar(LaidOutOnce, Widget):
    """Warning bar that is visible while auto-approve is on; `state` is then not None."""

    DEFAULT_CSS = """
    AutoApprovalBar { height: 1; display: none; padding: 0 1; }
    AutoApprovalBar { background: $warning; color: $background; text-style: bold; }
    AutoApprovalBar.on { display: block; }
    """
    state: "reactive[AutoApprovalStatus | None]" = reactive(None)

    def watch_state(self, state: "AutoApprovalStatus | None") -> None:
        """Show or hide the bar when `state` changes."""
        self.set_class(state is not None, "on")

    def render(self) -> Content:
        """Return the remaining limits, the number of approved tools, and the key that stops auto-approve.

        The limit with the smallest remaining fraction is first. Tools and limits that do not fit are omitted.
        """
        state = self.state
        if state is None:
            return Content("")
        first, *limits = _describe_limits(state)
        tools = _("{tools} of {servers}").format(
            tools=translate_count(state.tools, "tool"), servers=join_list(state.servers)
        )
        parts = [_("▲ AUTO-APPROVE ON"), first, tools, *limits]
        kill = keys_in_use(self).fill(_("{auto_approval} turns it off and stops running tools"))
        while len(parts) > 1 and sum(cell_len(part) + 3 for part in parts) + cell_len(kill) + 2 > self.size.width:
            parts.pop()
        line = " · ".join(clean_line(part, 60) for part in parts)
        room = max(1, self.size.width - cell_len(line) - cell_len(kill))
        return Content(f"{line}{' ' * room}{kill}")


def _describe_limits(state: "AutoApprovalStatus") -> list[str]:
    """Describe the remaining calls, time and tokens.

    The limit with the smallest remaining fraction is first.
    """
    left, budget = state.remaining, state.budget
    time_left = (
        _("{minutes:.0f} min left").format(minutes=left.seconds / 60)
        if left.seconds >= 90
        else _("{seconds:.0f} s left").format(seconds=left.seconds)
    )
    limits = (
        (left.calls / max(1, budget.calls), _("{calls} calls left").format(calls=left.calls)),
        (left.seconds / max(1.0, budget.seconds), time_left),
        (left.tokens / max(1, budget.tokens), _("{tokens:,}k tokens left").format(tokens=left.tokens // 1000)),
    )
    return [text for _unused, text in sorted(limits, key=lambda limit: limit[0])]
