"""Screen that diagnoses the connection to a server step by step, and then measures its response time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import anyio
from textual.binding import Binding, BindingType

from mcphost.errors import McpHostError
from mcphost.translation import N_, _, translate_facts, translate_sentence
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.diagnosis.steps import DiagnosisStep
    from mcphost.host.host import Host

_MARKS = {"ok": ("✓", "$success"), "warning": ("▲", "$warning"), "failed": ("✕", "$error")}
_BARS = "▁▂▃▄▅▆▇█"
_MEASURE_SECONDS = 1.0
_MAX_MEASUREMENTS = 30


class DiagnosisScreen(ListScreen):
    """List of the steps of a connection diagnosis; each step appears when it is finished."""

    EMPTY_TEXT: ClassVar[str] = N_("Checking…")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("r", N_("again"), "screen.again"),)
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.again"})
    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "again", show=False, id="diagnosis-again")]

    def __init__(self, host: "Host", server: str) -> None:
        super().__init__()
        self.TITLE_TEXT = _("Diagnosis of {server}").format(server=server)  # pyright: ignore[reportAttributeAccessIssue]
        self._host = host
        self._server = server
        self._rows: list[ListRow] = []
        self.add_class("bare")

    def on_mount(self) -> None:
        """Start the diagnosis."""
        super().on_mount()
        self.action_again()

    def action_again(self) -> None:
        """Discard the results and diagnose the server again."""
        self._rows = []
        self.reload()
        self.run_worker(self._diagnose, group="diagnosis", exclusive=True)

    async def _diagnose(self) -> None:
        from mcphost.host.servers.diagnosis import diagnose_server
        from mcphost.llm.providers import parse_provider

        is_working, provider = True, parse_provider(self._host.model_selection.config.name)
        async for step in diagnose_server(self._host.servers, self._server, provider):
            is_working = is_working and step.status != "failed"
            self._add(step)
        if is_working:
            await self._measure()

    def _add(self, step: "DiagnosisStep") -> None:
        mark, style = _MARKS[step.status]
        self._rows.append(
            ListRow(
                step,
                _(step.name),
                _join_advice(translate_facts(step.detail), translate_sentence(step.hint)),
                mark,
                style,
            )
        )
        self._show_last()

    async def _measure(self) -> None:
        """Measure the round-trip time to the server once a second while the screen is open, at most 30 times."""
        from mcphost.diagnosis.steps import make_step

        seconds: list[float] = []
        mark, style = _MARKS["ok"]
        for _unused in range(_MAX_MEASUREMENTS):
            try:
                seconds.append(await self._host.features.measure_round_trip(self._server))
            except McpHostError as error:
                self._add(make_step("latency", "warning", error.message, error.hint))
                return
            if len(seconds) > 1:
                self._rows.pop()
            detail = _("{seconds:.1f} ms").format(seconds=1000 * seconds[-1])
            if not is_reader(self):
                detail = f"{draw_sparkline(seconds)}  {detail}"
            self._rows.append(ListRow(make_step("latency", "ok", detail), _("latency"), detail, mark, style))
            self._show_last()
            await anyio.sleep(_MEASURE_SECONDS)

    def _show_last(self) -> None:
        """Refresh the list, and move the cursor to the newest step.

        If the user has selected an earlier step, the cursor stays on that step.
        """
        before = len(self.visible_rows)
        row = self.current_row()
        follows = row is None or not before or row is self.visible_rows[-1]
        self.reload()
        if follows:
            self.select_last()

    def load(self) -> Sequence[ListRow]:
        """Return a row for each finished step."""
        return self._rows

    def show_details(self, row: ListRow) -> None:
        """Show the full result of a step."""
        step: DiagnosisStep = row.value
        result, hint = translate_facts(step.detail), translate_sentence(step.hint)
        self.show_about(clean_pairs([(_("step"), _(step.name)), (_("result"), result), (_("what to do"), hint)]))


def _join_advice(result: str, advice: str) -> str:
    """Return the result of a diagnosis step and the advice about it on one line; either can be "".

    The separator is a space if the result ends with a period, "!" or "?", and otherwise " · ".
    """
    separator = " " if result.endswith((".", "!", "?", "。", "！", "？")) else " · "
    return separator.join(text for text in (result, advice) if text)


def draw_sparkline(values: Sequence[float]) -> str:
    """Return a row of block characters, one for each value, scaled to the largest value."""
    top = max(values, default=0.0)
    last = len(_BARS) - 1
    return "".join(_BARS[round(value / top * last)] for value in values) if top else ""
