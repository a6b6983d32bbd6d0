"""Tests that a screen is laid out again only if the size of something may have changed."""

from asyncio import BaseEventLoop
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest.mock import patch

import anyio.lowlevel
import pytest
from textual._compositor import Compositor
from textual.containers import Vertical
from textual.css import query
from textual.geometry import Region
from textual.layouts.vertical import VerticalLayout
from textual.widget import Widget
from textual.widgets import Button

from mcphost.host.questions.form_fields import Field
from mcphost.serialization import replace
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.forms.form_page import RowGroup
from mcphost.tui.forms.form_row import FormRow
from mcphost.tui.input_guard import AnswerGuard
from mcphost.tui.screens.list_screen import ListScreen
from mcphost.tui.widgets.laid_out_once import Column, StaticText
from mcphost.tui.widgets.one_line_text import OneLineText
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import AppDriver, Run
from tests.screens.screenshots import LONG_FORM

pytestmark = pytest.mark.anyio


class LayoutCounter:
    """Counts the layouts of a screen from now on."""

    def __init__(self, screen: Any) -> None:
        self.count = 0
        screen.screen_layout_refresh_signal.subscribe(screen, self._add, immediate=True)

    def _add(self, _screen: object) -> None:
        self.count += 1


async def open_form(driver: AppDriver) -> Any:
    """Ask a question with a form of several groups of rows, and return its dialog once all rows are shown."""
    PendingQuestion(driver, LONG_FORM)
    dialog = await driver.enter_question()
    await driver.until(lambda: all(row.is_mounted and row.size.height for row in dialog.form.rows), "all rows")
    await driver.pilot.pause()
    return dialog


async def test_the_line_about_the_unread_rest_changes_without_another_layout(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, LONG_FORM)
        dialog = await driver.enter_question()
        await driver.until(lambda: "more lines" in driver.text(), "the rest of the form")
        await driver.pilot.pause()
        layouts = LayoutCounter(dialog)
        dialog.query_one("#more", OneLineText).update("another text")
        await driver.until(lambda: "another text" in driver.text(), "the changed line")
        await driver.pilot.pause()
        assert layouts.count == 0
        dialog.refresh(layout=True)
        await driver.until(lambda: layouts.count == 1, "a layout")


async def test_a_form_whose_rows_get_another_height_is_laid_out_once(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        dialog = await open_form(driver)
        layouts = LayoutCounter(dialog)
        before = dialog.form.size.height
        dialog.form.rows[0].set_problem("is not known here")
        await driver.until(lambda: dialog.form.size.height > before, "the error")
        await driver.pilot.pause()
        assert layouts.count == 1


async def test_a_change_of_a_row_measures_the_rows_of_no_other_group(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    arranged: Counter[Widget] = Counter()
    arrange = VerticalLayout.arrange

    def count(layout: VerticalLayout, parent: Widget, *arguments: Any, **options: Any) -> Any:
        arranged[parent] += 1
        return arrange(layout, parent, *arguments, **options)

    async with run(size=(120, 40)) as driver:
        dialog = await open_form(driver)
        before = dialog.form.size.height
        monkeypatch.setattr(VerticalLayout, "arrange", count)
        dialog.form.rows[0].set_problem("is not known here")
        await driver.until(lambda: dialog.form.size.height > before, "the error")
        await driver.pilot.pause()
        group = next(node for node in dialog.form.rows[0].ancestors if isinstance(node, RowGroup))
        assert {row for row in arranged if isinstance(row, FormRow)} <= set(group.rows)
        assert dialog.form.rows[0] in arranged


async def test_a_group_of_rows_keeps_its_place_while_the_rows_above_it_are_mounted(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, LONG_FORM)
        await driver.until(lambda: driver.app.screen.query("#body RowGroup"), "the form")
        dialog: Any = driver.app.screen
        last = dialog.query(RowGroup).last()
        places: set[int] = set()

        def note_place(_screen: object) -> None:
            places.add(last.virtual_region.y)

        dialog.screen_layout_refresh_signal.subscribe(dialog, note_place, immediate=True)
        await driver.until(lambda: all(row.size.height for row in dialog.form.rows), "all rows")
        assert last.virtual_region.y in places
        assert len(places - {0}) == 1


async def test_a_dialog_is_laid_out_in_one_turn_of_the_event_loop_and_drawn_in_another(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = 0
    turns: dict[str, set[int]] = {"laid out": set(), "drawn": set()}
    run_turn, arrange, render = BaseEventLoop._run_once, Compositor.reflow, Compositor.render_update  # type: ignore[attr-defined]

    def count(loop: BaseEventLoop) -> None:
        nonlocal turn
        turn += 1
        run_turn(loop)

    def note_layout(compositor: Compositor, *arguments: Any) -> Any:
        turns["laid out"].add(turn)
        return arrange(compositor, *arguments)

    def note_drawing(compositor: Compositor, *arguments: Any, **options: Any) -> Any:
        turns["drawn"].add(turn)
        return render(compositor, *arguments, **options)

    async with run(size=(120, 40)) as driver:
        dialog = await open_form(driver)
        before = dialog.form.size.height
        with monkeypatch.context() as patches:
            patches.setattr(BaseEventLoop, "_run_once", count)
            patches.setattr(Compositor, "reflow", note_layout)
            patches.setattr(Compositor, "render_update", note_drawing)
            dialog.form.rows[0].set_problem("is not known here")
            await driver.until(lambda: dialog.form.size.height > before and turns["drawn"], "the error")
        assert turns["laid out"]
        assert turns["drawn"]
        assert not turns["laid out"] & turns["drawn"]


async def test_a_key_in_a_long_form_searches_few_widgets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    match = query.match

    def count(selectors: Any, node: Any) -> bool:
        nonlocal compared
        compared += 1
        return match(selectors, node)

    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, replace(LONG_FORM, fields=tuple(Field(name=f"f{n}", kind="text") for n in range(30))))
        dialog = await driver.enter_question()
        for last in (9, 19, 29):
            await driver.until(lambda last=last: dialog.form.rows[last].size.height, "the page")
            await driver.pilot.press("pagedown")
        await driver.pilot.press("tab")
        await driver.pilot.pause()
        monkeypatch.setattr(query, "match", count)
        await driver.pilot.press("tab")
        await driver.pilot.pause()
        assert 0 < compared < len(list(dialog.walk_children()))


@pytest.mark.parametrize("name", ["#head", "#top-heading", "#hidden-entries"])
async def test_a_line_of_a_list_changes_without_another_layout(run: Run, name: str) -> None:
    async with run(size=(120, 40)) as driver:
        await driver.pilot.press("f3")
        await driver.until(lambda: isinstance(driver.app.screen, ListScreen), "the servers")
        await driver.pilot.pause()
        layouts = LayoutCounter(driver.app.screen)
        line = driver.app.screen.query_one(name, OneLineText)
        line.update("another text")
        await driver.pilot.pause()
        assert str(line.content) == "another text"
        assert layouts.count == 0


@pytest.mark.parametrize("text", ["the same", ""])
async def test_a_text_that_stays_the_same_is_not_laid_out_again(run: Run, text: str) -> None:
    async with run() as driver:
        line = StaticText(text, markup=False)
        await driver.app.chat.mount(line)
        await driver.pilot.pause()
        layouts = LayoutCounter(driver.app.chat)
        line.update(text)
        await driver.pilot.pause()
        assert layouts.count == 0
        line.update("another\ntext")
        await driver.until(lambda: line.size.height == 2, "both lines")
        assert layouts.count


async def test_a_column_is_as_high_as_its_children_and_not_as_its_container(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        column = Column(StaticText("one\ntwo"), StaticText("three"))
        column.styles.min_height = 2
        await driver.app.chat.mount(Vertical(column))
        await driver.until(lambda: column.size.height, "the column")
        assert column.size.height == 3


@contextmanager
def record_drawings(driver: AppDriver) -> Iterator[list[str]]:
    """Yield a list to which each later drawing of a dialog is added.

    The patch must be undone before that of `run`: otherwise, that one would stay in place for all later tests.
    """
    found: list[str] = []
    render = Compositor.render_update

    def draw(compositor: Compositor, *arguments: Any, now: bool = False, **options: Any) -> Any:
        if not now and compositor is driver.app.screen._compositor and isinstance(driver.app.screen, Dialog):
            found.append("drawn")
        return cast("Any", render)(compositor, *arguments, now=now, **options)

    with patch.object(Compositor, "render_update", draw):
        yield found


async def test_early_keys_of_a_question_are_counted_from_its_first_drawing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = AnswerGuard.show
    async with run(size=(120, 40)) as driver:
        with record_drawings(driver) as found:

            def note_guard(guard: AnswerGuard) -> None:
                found.append("counted")
                show(guard)

            monkeypatch.setattr(AnswerGuard, "show", note_guard)
            PendingQuestion(driver, LONG_FORM)
            await driver.until(lambda: "counted" in found, "the question")
            assert "drawn" in found[: found.index("counted")]


async def test_what_waits_for_a_refresh_is_called_after_the_drawing(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        dialog = await open_form(driver)
        with record_drawings(driver) as found:
            dialog._refresh_layout()
            # Not as a message: the screen handles it in this turn of the event loop only if others are waiting.
            dialog._callbacks.append((lambda: found.append("called"), dialog))
            await dialog._invoke_and_clear_callbacks()
            await driver.until(lambda: "called" in found, "the call")
            assert found == ["drawn", "called"]


async def test_a_widget_that_changes_between_the_layout_and_the_drawing_is_drawn(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawings: list[set[Region]] = []
    render = Compositor.render_update

    async with run(size=(120, 40)) as driver:
        dialog = await open_form(driver)
        button = dialog.query(Button).first()

        def recorded(compositor: Any, *arguments: Any, **options: Any) -> Any:
            if compositor is dialog._compositor:
                drawings.append(set(compositor._dirty_regions))
            return render(compositor, *arguments, **options)

        with monkeypatch.context() as patches:
            patches.setattr(Compositor, "render_update", recorded)
            dialog._refresh_layout()
            dialog._compositor._dirty_regions.clear()  # the button may be among what the layout has moved
            button._set_dirty()  # as a message does that arrives before the drawing
            dialog._dirty_widgets.add(button)
            dialog.check_idle()
            await driver.until(lambda: bool(drawings), "the drawing")
            assert button.region in drawings[0]


async def test_an_error_while_a_dialog_is_drawn_ends_the_program(run: Run) -> None:
    def fail(*_arguments: Any, **_options: Any) -> Any:
        raise ZeroDivisionError

    async def draw() -> None:
        async with run(size=(120, 40)) as driver:
            dialog = await open_form(driver)
            with patch.object(Compositor, "render_update", fail), anyio.fail_after(10):
                dialog._refresh_layout()
                while driver.app._exception is None:
                    await anyio.lowlevel.checkpoint()

    with pytest.raises(ZeroDivisionError):
        await draw()
