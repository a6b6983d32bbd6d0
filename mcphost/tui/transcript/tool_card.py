"""Transcript block for a tool call, with its arguments, progress and result, and a spinner while it runs."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, starmap
from time import monotonic
from typing import Any

from textual.content import Content
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget

from mcphost.sanitize import is_shown_within
from mcphost.translation import N_, _, ngettext, translate_sentence
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screen_text import clean, clean_beginning, clean_line, first_lines
from mcphost.tui.transcript.blocks import ACTIVATE_STYLE, TranscriptBlock
from mcphost.tui.transcript.prefixed_content import PROSE_WIDTH, PrefixedContent, justify_ends
from mcphost.tui.widget_messages import Section

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
# Maps a state to its mark, its label and its style. The label repeats the meaning of the mark and the color.
STATES: dict[str, tuple[str, str, str]] = {
    "proposed": ("◇", N_("next"), "$muted"),
    "waiting": ("◆", N_("waiting for you"), "$warning"),
    "running": ("◐", N_("running"), "$accent"),
    "ok": ("✓", N_("done"), "$success"),
    "error": ("✕", N_("error"), "$error"),
    "failed": ("✕", N_("failed"), "$error"),
    "declined": ("⊘", N_("declined"), "$muted"),
    "stopped": ("■", N_("stopped"), "$muted"),
    "background": ("◌", N_("in the background"), "$accent"),
}
REVIEW_LABELS = {
    "passed": N_("reviewed and passed to the model"),
    "changed": N_("passed to the model as edited"),
    "withheld": N_("withheld from the model"),
}
MAX_ENDED_CARDS = 20
_FOLDED_ROWS = 6
_FOLDED_LINES = 6
_FOLDED_VALUE = 160
_UNFOLDED_VALUE = 4000
_UNFOLDED_ROWS = 200
_SEARCHED_BLOCKS = 200
BACKGROUND_OFFER_SECONDS = 3.0
"""Seconds after which the card of a running call offers to send it to the background."""

BACKGROUND_STYLE = Style.from_meta({"act": "background"})
CALL_AGAIN_STYLE = Style.from_meta({"act": "call_again"})
_FOUND_CONTEXT = 80
"""Maximum number of characters of the result that are shown before the current search match."""


def format_value(value: Any) -> str:
    """Format the value of an argument for display: a string as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    from mcphost.serialization import dumps  # imported with the first card, not before the first frame

    short = dumps(value)
    return short if len(short) <= 80 else dumps(value, indent=2)


def quote_unusual_name(name: str) -> str:
    """Return the name of an argument; an unusual name is returned as a JSON string.

    The caller must sanitize the result.
    """
    # imported with the first card, not before the first frame
    from mcphost.host.consent.call_readability import is_unusual_name
    from mcphost.serialization import dumps

    return dumps(name) if is_unusual_name(name) else name


def render_progress_bar(share: float) -> str:
    """Return a progress bar of twelve cells, plus a border on each side.

    *share* is the fraction to fill, from 0 to 1.
    """
    cells = 12
    eighths = round(max(0.0, min(1.0, share)) * cells * 8)
    full, part = divmod(eighths, 8)
    body = "█" * full + (" ▏▎▍▌▋▊▉"[part] if part and full < cells else "")
    return f"▕{body:<{cells}}▏"


class ToolCard(TranscriptBlock):
    """Card that shows one tool call; call `invalidate` after setting an attribute directly.

    - `state`: a key of STATES.
    - `arguments`: the arguments of the call, or None if the model sent invalid arguments.
    - `raw`: the text of invalid arguments, as the model sent it.
    """

    can_step = True

    def __init__(self, call: str, server: str, tool: str, arguments: dict[str, Any] | None, raw: str = "") -> None:
        super().__init__()
        self.call, self.server, self.tool = call, server, tool
        self.arguments, self.raw = arguments, raw
        self.state = "proposed"
        self.started_by = ""
        self.result = ""
        self.result_file = ""
        self.review_outcome = ""
        self.reused_from = ""
        """The time of the earlier call whose result was reused; "" if the tool was called."""

        self.seconds = 0.0
        self.started_at = 0.0
        self.find_seconds: Callable[[str], float | None] = lambda call: None
        """Returns the running time of a call, excluding the time for questions; None if the host does not run it."""

        self.progress: tuple[float, float | None, str] | None = None
        self.has_page = False
        """Whether the call has an interactive page, which the user can open."""
        self.is_expanded = False
        self.found_line = ""
        """The line with the current search match if it is in the folded part of the result."""

    @property
    def is_running(self) -> bool:
        """Whether the call is running; the card then shows a spinner and the elapsed time."""
        return self.state == "running" or (self.state == "background" and self.started_at > 0)

    @property
    def can_go_to_background(self) -> bool:
        """Whether the turn is waiting for this call, and could continue while the call runs in the background."""
        return self.state == "running" and self.started_by not in ("", "user", "earlier", "page")

    def start(self, arguments: dict[str, Any], started_by: str) -> None:
        """Mark the call as running and start measuring the elapsed time.

        *arguments* are the arguments that were sent. *started_by* states how the call was approved (see
        `ToolStarted.by`): "user" if the user made the call, and "earlier" if an earlier run of mcphost sent it.
        """
        self.arguments, self.started_by, self.state, self.started_at = arguments, started_by, "running", monotonic()
        self.progress = None
        self.invalidate()

    def finish(
        self,
        outcome: str,
        text: str,
        seconds: float,
        result_file: str = "",
        arguments: dict[str, Any] | None = None,
    ) -> None:
        """Mark the call as ended, and show its result or error.

        *outcome* is a key of STATES, *text* is the result or error message, and *seconds* is the duration of the call.
        *result_file* is the path of the file with the full result if the model received only its beginning. *arguments*
        replace those of the card if they were changed before the call was refused.
        """
        if arguments is not None:
            self.arguments = arguments
        self.state, self.result, self.seconds, self.result_file = outcome, text, seconds, result_file
        self.invalidate()

    def render(self, width: int) -> list[PrefixedContent]:
        """Return a heading, the arguments, the progress and the first lines of the result as rows of the card."""
        mark, words, style = STATES.get(self.state, STATES["proposed"])
        if self.is_running:
            mark = SPINNER[int(monotonic() * 8) % len(SPINNER)]
        lead = style if self.state in {"waiting", "running", "background", "error", "failed"} else "$faint"
        name = clean_line(self.tool, 80)
        who = f"{clean_line(self.server, 40)} · " if self.server else ""
        left = Content.assemble((f"{mark} ", style), (who, "$muted"), (name, "bold"))
        right = Content.styled(f"{_(words)}{self._format_elapsed()}", style)
        if self.reused_from:
            offer = Content.styled(_("/call-again calls it"), "$accent").stylize(CALL_AGAIN_STYLE)
            right = Content.assemble((_("reused from {time}").format(time=self.reused_from), "$warning"), " · ", offer)
        if self.can_go_to_background and monotonic() - self.started_at >= BACKGROUND_OFFER_SECONDS:
            offer = Content.styled(self._describe_offer(), "$accent").stylize(BACKGROUND_STYLE)
            right = Content.assemble(offer, " · ", right)
        out = [PrefixedContent("▎ ", "▎ ", justify_ends(left, right, min(width, PROSE_WIDTH) - 2), "", lead)]
        out.extend(self._render_arguments(width, lead))
        if self.progress and (self.is_running or self.state == "proposed"):
            out.append(PrefixedContent("▎   ", "▎   ", self._render_progress(), "", lead))
        out.extend(self._render_result(lead))
        if self.has_page:
            text = _("interactive page · /app opens it in the browser")
            offer = Content.styled(text, "$accent").stylize(Style.from_meta({"act": "app", "call": self.call}))
            out.append(PrefixedContent("▎   ", "▎   ", offer, "", lead))
        return out

    def _describe_offer(self) -> str:
        """Return the hint that names the keys for moving the call to the background.

        If the transcript does not have the focus, the hint begins with the key that focuses it.
        """
        key = self.keys.short("conversation-background")
        if key and not self.has_keys:
            key = f"{self.keys.short('focus_transcript')}, {key}"
        return f"{key} {_('run in background')}".lstrip()

    def _format_elapsed(self) -> str:
        if self.is_running:
            running = self.find_seconds(self.call)
            passed = monotonic() - self.started_at if running is None else running
            return _(" · {seconds:.0f} s").format(seconds=passed) if passed >= 1 else ""
        if not self.seconds:
            return ""
        return (
            _(" · {seconds:.1f} s").format(seconds=self.seconds)
            if self.seconds >= 1
            else _(" · {count} ms").format(count=max(1, round(self.seconds * 1000)))
        )

    def _render_progress(self) -> Content:
        value, total, message = self.progress or (0.0, None, "")
        # Before the call is sent, only mcphost reports progress.
        told = clean_line(translate_sentence(message) if self.state == "proposed" else message, 120)
        if total:
            return Content.assemble(
                (render_progress_bar(value / total), "$accent"), f" {value:g}/{total:g}  ", (told, "$muted")
            )
        number = f"{value:g}  " if value or not told else ""  # a task reports only text, no number
        return Content.assemble((number, "$accent"), (told, "$muted"))

    def _render_arguments(self, width: int, lead: str) -> list[PrefixedContent]:
        if self.arguments is None:
            text = clean(self.raw[: _UNFOLDED_VALUE if self.is_expanded else _FOLDED_VALUE])
            return [
                PrefixedContent("▎   ", "▎   ", Content.assemble((_("not a JSON object: "), "$error"), text), "", lead)
            ]
        if not self.arguments:
            return []
        most = _UNFOLDED_ROWS if self.is_expanded else _FOLDED_ROWS
        given = islice(self.arguments.items(), most)
        items = [(clean_line(quote_unusual_name(key), 60), format_value(value)) for key, value in given]
        rest = len(self.arguments) - len(items)
        one_row = "   ".join(f"{key} {value}" for key, value in items)
        if not rest and len(one_row) < width - 6 and "\n" not in one_row:
            row = Content("   ").join(
                Content.assemble((f"{key} ", "$faint"), (clean(value), "$muted")) for key, value in items
            )
            return [PrefixedContent("▎   ", "▎   ", row, "", lead)]
        out: list[PrefixedContent] = []
        indent = "▎   "
        for key, value in items:
            limit = _UNFOLDED_VALUE if self.is_expanded else _FOLDED_VALUE
            shown = value[:limit]
            if not is_shown_within(shown, limit):
                shown = shown[: len(shown) - clean_beginning(shown, limit, limit)[1]]
            if not self.is_expanded and "\n" in shown:
                shown = "\n".join(shown.split("\n")[:3])
            more = ""
            if len(shown) < len(value):
                more = _(" … {value_count:,} more characters").format(value_count=len(value) - len(shown))
            row = Content.assemble((f"{key} ", "$faint"), (clean(shown), "$muted"), (more, "$faint"))
            out.append(PrefixedContent(indent, indent + "  ", row.stylize(ACTIVATE_STYLE) if more else row, "", lead))
        if rest:
            text = ngettext("… {rest:,} more argument", "… {rest:,} more arguments", rest).format(rest=rest)
            note = Content.styled(text, "$faint").stylize(ACTIVATE_STYLE)
            out.append(PrefixedContent(indent, indent, note, "", lead))
        return out

    def _render_result(self, lead: str) -> list[PrefixedContent]:
        if not self.result:
            return []
        text = self.result.rstrip("\n") if len(self.result) < 100_000 else self.result
        if self.state in {"declined", "failed", "stopped"}:  # words of mcphost or of the user, not of a server
            text = translate_sentence(text)
        lines, more = first_lines(text, _FOLDED_LINES, 400)
        style = "$text" if self.state == "ok" else "$muted"
        out = [PrefixedContent("▎ │ ", "▎ │ ", Content.styled("\n".join(lines), style), "", lead)]
        if more or len(self.result) > 2000:
            lines_left = ngettext(
                "… {more:,} more line · {key} opens all", "… {more:,} more lines · {key} opens all", more
            )
            note = (lines_left if more else _("… {key} opens all")).format(more=more, key=self.open_key)
            out.append(
                PrefixedContent("▎ │ ", "▎ │ ", Content.styled(note, "$accent").stylize(ACTIVATE_STYLE), "", lead)
            )
        if self.found_line:
            found = Content(clean_line(self.found_line, 400))
            out.append(PrefixedContent("▎ │ ", "▎ │ ", found, "", lead))
        if self.review_outcome:
            out.append(
                PrefixedContent(
                    "▎ │ ", "▎ │ ", Content.styled(_(REVIEW_LABELS[self.review_outcome]), "$accent"), "", lead
                )
            )
        if self.result_file:
            told = _("the model received the beginning; full result: {result_file}").format(
                result_file=clean_line(self.result_file, 500)
            )
            out.append(PrefixedContent("▎ │ ", "▎ │ ", Content.styled(told, "$warning"), "", lead))
        return out

    def estimate_height(self, width: int) -> int:
        """Estimate the height in rows from the number of lines in the result."""
        return self.gap + 2 + min(_FOLDED_LINES, self.result.count("\n", 0, 4000) + 1 if self.result else 0)

    def activate(self) -> tuple[str, str] | None:
        """Fold or unfold the arguments and return None.

        If the result or the arguments are long, return a title and the result for the text viewer instead.
        """
        more = self.result.count("\n", 0, 20_000) >= _FOLDED_LINES or len(self.result) > 2000
        long_raw = self.arguments is None and len(self.raw) > _UNFOLDED_VALUE
        if long_raw or len(self.arguments or ()) > _UNFOLDED_ROWS:
            return f"{self.server} · {self.tool}", self.result
        given = [format_value(value) for value in (self.arguments or {}).values()]
        if more or any(len(value) > _UNFOLDED_VALUE for value in given):
            return f"{self.server} · {self.tool}", self.result
        self.is_expanded = not self.is_expanded
        self.invalidate()
        return None

    def sections(self) -> Sequence[Section]:
        """Return the result and each argument as separate sections, so that no text can imitate a heading."""
        if self.arguments is None:
            given = [("", self.raw)]
        else:
            given = [(quote_unusual_name(name), value) for name, value in self.arguments.items()]
        if not given:
            return ()
        texts = (
            (_("called with {name}").format(name=clean_line(name, 200)).rstrip(), format_value(value))
            for name, value in given
        )
        return Section(_("result"), self.result), *starmap(Section, texts)

    def search_text(self) -> str:
        """Return the names of the server and the tool, the arguments and the result, in display order."""
        given = [self.raw] if self.arguments is None else starmap("{} {}".format, self._arguments_as_text())
        return "\n".join((f"{self.server} · {self.tool}", *given, self.result))

    def _arguments_as_text(self) -> Iterator[tuple[str, str]]:
        return ((name, format_value(value)) for name, value in (self.arguments or {}).items())

    def reveal(self, pattern: re.Pattern[str], place: int) -> None:
        """Make match number *place* of *pattern* visible.

        If the match is in the result, show the line that contains it; otherwise, unfold the arguments.
        """
        text = self.search_text()
        match = next(islice(pattern.finditer(text), place, None), None)
        in_result = match.start() - (len(text) - len(self.result)) if match else -1
        found = ""
        if match is not None and in_result >= 0:
            begin = self.result.rfind("\n", 0, in_result) + 1
            number = self.result.count("\n", 0, begin)
            if number >= _FOLDED_LINES or in_result - begin > _FOUND_CONTEXT:
                begin = max(begin, in_result - _FOUND_CONTEXT)
                end = self.result.find("\n", in_result)
                line = self.result[begin : min(end if end >= 0 else len(self.result), begin + 3 * _FOUND_CONTEXT)]
                found = _("line {number:,}: {line}").format(number=number + 1, line=line)
        elif match is not None and not self.is_expanded:
            self.is_expanded = True
            self.invalidate()
        if found != self.found_line:
            self.found_line = found
            self.invalidate()

    def copy_text(self) -> str:
        """Return the result or, if there is none yet, the arguments as JSON."""
        from mcphost.serialization import dumps

        return self.result or dumps(self.arguments)


def find_background_candidate(blocks: Sequence[TranscriptBlock], index: int) -> ToolCard | None:
    """Return the card of the tool call to move to the background, or None if it is unclear which call is meant.

    This is the card at *index* if its call can continue in the background. Otherwise, it is the only one of the newest
    blocks whose call can do so.
    """
    selected = blocks[index] if 0 <= index < len(blocks) else None
    if isinstance(selected, ToolCard) and selected.can_go_to_background:
        return selected
    newest = blocks[-_SEARCHED_BLOCKS:]
    candidates = [one for one in newest if isinstance(one, ToolCard) and one.can_go_to_background]
    return candidates[0] if len(candidates) == 1 else None


_SPIN_SECONDS = 0.25
_FAST_SPIN_SECONDS = 10.0
_SLOW_SPIN_SECONDS = 1.0
"""Seconds between spinner frames of a long call, for which only the elapsed time needs to stay current."""
_MAX_SPINNER_BLOCKS = 50
"""Number of blocks at the end that are searched for running tool calls."""


class UnsentCards(dict[str, ToolCard]):
    """Cards of tool calls that the user made and that have not been sent yet, keyed by the id of the call.

    A card is kept even if its call ended without being sent, because an event about the call may follow. Only the
    newest MAX_ENDED_CARDS cards of ended calls are kept.
    """

    def add(self, card: ToolCard) -> None:
        """Add the card of a call that is about to be sent."""
        ended = [call for call, one in self.items() if not one.is_running]
        for call in ended[:-MAX_ENDED_CARDS]:
            del self[call]
        self[card.call] = card


class CallSpinner:
    """Timer that redraws the spinners of running tool calls until no call is running.

    *redraw* is called with the index of each block that shows a running call.
    """

    def __init__(
        self, widget: Widget, get_blocks: Callable[[], Sequence[TranscriptBlock]], redraw: Callable[[int], None]
    ) -> None:
        self._widget, self._get_blocks, self._redraw = widget, get_blocks, redraw
        self._timer: Timer | None = None
        self._count = 0

    def start(self) -> None:
        """Start the timer if a call is running and the timer has not been started yet."""
        if self._timer is None and any(block.is_running for block in self._get_blocks()[-_MAX_SPINNER_BLOCKS:]):
            self._count = 0
            wait = BACKGROUND_OFFER_SECONDS if is_reader(self._widget) else _SPIN_SECONDS
            self._timer = self._widget.set_timer(wait, self.advance)

    def advance(self) -> None:
        """Redraw the row with the spinner and elapsed time of each running call, if the screen is visible."""
        self._timer = None
        blocks = self._get_blocks()
        first = max(0, len(blocks) - _MAX_SPINNER_BLOCKS)
        running = [index for index in range(first, len(blocks)) if blocks[index].is_running]
        if not running:
            return
        self._count += 1
        often = self._count * _SPIN_SECONDS < _FAST_SPIN_SECONDS
        if not is_reader(self._widget):  # for screen readers, a single update offers the background
            self._timer = self._widget.set_timer(_SPIN_SECONDS if often else _SLOW_SPIN_SECONDS, self.advance)
        if self._widget.screen.is_current or self._widget.app.screen.is_modal:  # pyright: ignore[reportUnknownMemberType]
            for index in running:
                self._redraw(index)

    def redraw(self) -> None:
        """Redraw the first row of each running call immediately, because the key hints in it have changed."""
        blocks = self._get_blocks()
        for index in range(max(0, len(blocks) - _MAX_SPINNER_BLOCKS), len(blocks)):
            if blocks[index].is_running:
                self._redraw(index)
