"""Tests for form fields: the mouse, keys that arrive together, long lists, and texts from servers shown literally."""

import re
from asyncio import BaseEventLoop
from typing import Any

import pytest
from textual import events

from mcphost.host.questions.form_fields import Field, Option
from mcphost.serialization import replace
from mcphost.tui.forms.choice_list import ChoiceList
from mcphost.tui.forms.field_widgets import LineEntry, TextEntry, TristateCheckbox
from mcphost.tui.forms.form import Form
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import AppDriver, Run
from tests.screens.example_fields import AGE_FIELD, NAME_FIELD, NOTE_FIELD, WATCH_FIELD, form_question

pytestmark = pytest.mark.anyio

TEA = Field(name="tea", kind="choice", options=(Option("g", "Green"), Option("b", "Black"), Option("o", "Oolong")))
EXTRAS = replace(TEA, name="extras", kind="choices")


async def open_form(it: Any, *fields: Field) -> Any:
    PendingQuestion(it, form_question(*fields))
    return (await it.enter_question()).form


async def test_the_click_that_opens_a_list_selects_nothing_and_the_next_selects_the_option_below_it(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        form = await open_form(it, EXTRAS, NOTE_FIELD)
        await it.pilot.click(ChoiceList, offset=(3, 0))
        await it.until(lambda: "□ Oolong" in it.text(), "the list")
        assert form.values()["extras"] is None
        await it.pilot.click(ChoiceList, offset=(3, 1))
        await it.pilot.click(ChoiceList, offset=(3, 2))
        await it.until(lambda: "■ Oolong" in it.text(), "the selection")
        assert form.values()["extras"] == ["b", "o"]
        await it.pilot.press("tab")
        await it.until(lambda: "Black  (b), Oolong  (o)" in it.text(), "the selection in one row")


async def test_clicks_on_a_checkbox_go_through_every_answer(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        form = await open_form(it, replace(WATCH_FIELD, name="again", required=True), WATCH_FIELD)
        required, optional = it.app.screen.query(TristateCheckbox)
        recorded: list[Any] = []
        for box, clicks in ((required, 2), (optional, 3)):
            await it.pilot.press("tab", "n")
            await it.until(
                lambda box=box: box.field_value is False and "□ no" in it.text(), "the dialog at its new height"
            )
            for _ in range(clicks):
                await it.pilot.click(box, offset=(2, 0))
                recorded.append(box.field_value)
                assert box.value is (box.field_value is True)
        assert recorded == [True, False, None, True, False]
        assert form.values() == {"watch": False, "again": False}
        assert it.text().count("□ no") == 2


async def test_keys_in_one_piece_select_the_rows_they_were_pressed_at(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        form = await open_form(it, EXTRAS, WATCH_FIELD)
        await it.pilot.press("tab")
        it.press_together("down", " ", "down", "down", " ", "tab", "y", " ")
        await it.until(lambda: form.values()["watch"] is False, "the last key")
        assert form.values()["extras"] == ["g", "o"]


async def test_text_typed_right_after_a_key_that_leaves_a_field_goes_into_the_next_one(run: Run) -> None:
    fields = NAME_FIELD, replace(AGE_FIELD, default=None), EXTRAS, NOTE_FIELD, WATCH_FIELD
    async with run(size=(80, 24)) as it:
        form = await open_form(it, *fields)
        await it.pilot.press("tab")
        keys = *"Ada", "enter", *"30", "down", "down", " ", "enter", *"hi", "enter", "y", "up", *"!!"
        it.press_together(*keys)
        await it.until(lambda: form.values()["note"] == "hi!!", "the last key")
        assert form.values() == {"name": "Ada", "age": 30, "extras": ["g"], "note": "hi!!", "watch": True}


async def test_options_are_added_with_the_first_focus_and_start_on_the_selection(run: Run) -> None:
    many = tuple(Option(f"v{n}", f"Value {n}") for n in range(1_000))
    long = replace(TEA, name="long", options=many, default="v500")
    async with run(size=(80, 24)) as it:
        form = await open_form(it, NOTE_FIELD, long)
        choices = form.rows[1].field_widget
        assert "Value 500" in it.text()
        assert not choices.options
        await it.pilot.press("tab", "tab")
        await it.until(lambda: "● Value 500" in it.text() and "501 of 1000" in it.text(), "the selection")
        await it.pilot.press("pagedown", "space", "home", "up")
        assert form.current_row is form.rows[0], "up leaves the list before its first option"
        assert form.values()["long"] == "v506"


@pytest.mark.parametrize(("option", "shown"), [
    (Option("delete", "Keep the file"), "Keep the file  (delete)"), (Option("delete", "delete"), "delete"),
    (Option("delete", "delete nothing"), "delete nothing  (delete)"),
    (Option("a" * 200, "short"), f"short  ({'a' * 200})"), (Option("a" * 200, "a" * 200), "a" * 200),
])  # fmt: skip
async def test_a_choice_without_the_focus_shows_the_value_that_is_sent(run: Run, option: Option, shown: str) -> None:
    async with run(size=(80, 24)) as it:
        await open_form(it, replace(TEA, options=(option, *TEA.options), default=option.value), NOTE_FIELD)
        assert visible_text(it).count("".join(shown.split())) == 1
        await it.pilot.press("tab")
        await it.until(lambda: f"●{''.join(shown.split())}" in visible_text(it), "the same in the list")


async def test_a_selected_value_of_any_length_is_shown_to_its_end(run: Run) -> None:
    values = tuple(f"/{'folder/' * 90}{name}" for name in ("mine", "yours"))
    options = tuple(Option(value, "Documents") for value in values)
    async with run(size=(120, 50)) as it:
        form = await open_form(it, replace(TEA, options=options), NOTE_FIELD)
        await it.pilot.press("tab", "down", "down", "space", "tab")
        await it.until(lambda: form.values()["tea"] == values[1], "the selection")
        await it.until(lambda: f"Documents({values[1]})" in visible_text(it), "the whole value")


def visible_text(it: AppDriver) -> str:
    """Return the text on the screen without borders and white space, so that it does not depend on line breaks."""
    return re.sub(r"[\s│▌▐▾]", "", it.text())


async def test_a_choice_of_mcphost_shows_only_its_title(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        await it.app.screen.mount(Form((TEA,), {"tea": "b"}, shows_names=False), before=0)
        await it.until(lambda: "Black" in it.text(), "the form")
        assert "(b)" not in it.text()


async def test_titles_of_options_are_shown_in_full_and_never_as_markup(run: Run) -> None:
    title = "[red]Green[/red] " + "leaf " * 18 + "end"
    async with run(size=(80, 24)) as it:
        form = await open_form(it, replace(EXTRAS, options=(Option("[b]g[/b]", title), *TEA.options)))
        await it.pilot.press("tab")
        await it.until(lambda: "□ Oolong" in it.text(), "the list")
        shown = " ".join(re.sub("[│▌▐]", " ", it.text()).split())
        assert f"□ {' '.join(title.split())} ([b]g[/b])" in shown
        # A title of three rows is one option: the next one is below all of them.
        await it.until(lambda: not it.app.screen.guard.is_blocking(0, is_letter=True), "that clicks count")
        await it.pilot.click(ChoiceList, offset=(3, 3))
        await it.until(lambda: "■ Green" in it.text(), "the selection")
        assert form.values()["extras"] == ["g"]
        await it.pilot.click(ChoiceList, offset=(3, 2))
        await it.until(lambda: "■ [red]" in it.text(), "the other selection")
        assert form.values()["extras"] == ["[b]g[/b]", "g"]


async def test_a_long_number_grows_and_a_short_one_is_a_line(run: Run) -> None:
    digits = "9" * 300
    number = replace(AGE_FIELD, name="number", maximum=None, default=int(digits))
    async with run(size=(80, 24)) as it:
        form = await open_form(it, AGE_FIELD, number)
        assert [type(row.field_widget) for row in form.rows] == [LineEntry, TextEntry]
        await it.until(lambda: it.text().count("9") >= 300, "every digit that is sent")
        assert form.values() == {"age": 30, "number": int(digits)}


async def test_hidden_characters_pasted_into_a_line_are_shown(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        form = await open_form(it, AGE_FIELD)
        await it.pilot.press("tab")
        form.rows[0].field_widget.text = "3\u200b0"
        await it.until(lambda: "contains hidden characters: 3‹U+200B›0" in it.text(), "the mark")
        assert "✗ must be a whole number" in it.text()


async def test_the_json_editor_takes_the_place_of_the_fields_and_gives_it_back(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        form = await open_form(it, NAME_FIELD, AGE_FIELD, TEA)
        title = NAME_FIELD.title or NAME_FIELD.name
        await it.until(lambda: f"{title}*" in it.text(), "the fields")
        await it.pilot.press("ctrl+e")
        await it.until(lambda: '"tea": null' in it.text(), "the editor")
        assert f"{title}*" not in it.text()
        assert not form.region
        await it.until(lambda: " Apply " in it.text(), "the button")
        assert " Send " not in it.text()
        assert "to read" not in it.text()
        await it.pilot.press("escape")
        await it.until(lambda: f"{title}*" in it.text(), "the fields again")
        assert '"tea": null' not in it.text()


async def test_json_omits_an_entered_secret_and_keeps_it(run: Run) -> None:
    key = Field(name="api_key", kind="text", secret=True)
    async with run(size=(80, 24)) as it:
        form = await open_form(it, NAME_FIELD, key)
        form.rows[0].field_widget.text = "Ada"
        form.rows[1].field_widget.text = "hunter2"
        await it.pilot.press("ctrl+e")
        await it.until(lambda: "Not shown, and kept unless you add it here: api_key" in it.text(), "the note")
        assert "hunter2" not in it.app.screen.query_one("#content").text
        assert "hunter2" not in it.text()
        await it.pilot.press("ctrl+s")
        await it.until(lambda: it.app.focused.id == "send", "the form")
        assert form.values() == {"name": "Ada", "api_key": "hunter2"}
        assert "hunter2" not in it.text()
        await it.pilot.press("ctrl+e")
        it.app.screen.query_one("#content").text = '{"name": "Ada", "api_key": null}'
        await it.pilot.press("ctrl+s")
        await it.until(lambda: it.app.focused.id == "send", "the form again")
        assert form.values() == {"name": "Ada", "api_key": None}


async def test_fields_that_the_json_editor_hides_are_not_taken_as_read(run: Run) -> None:
    fields = tuple(replace(NOTE_FIELD, name=f"note{n}", title=f"Note {n}", default=f"value {n}") for n in range(12))
    async with run(size=(80, 24)) as it:
        await open_form(it, *fields)
        await it.until(lambda: "read to the end first" in it.text(), "what is left to read")
        await it.pilot.press("ctrl+e")
        await it.until(lambda: '"note0": "value 0"' in it.text(), "the editor")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "read to the end first" in it.text(), "what is left to read")
        assert it.app.screen.disabled_reason("send")


async def test_a_form_with_pages_counts_its_fields_and_no_lines(run: Run) -> None:
    fields = tuple(replace(NOTE_FIELD, name=f"note{n}") for n in range(25))
    async with run(size=(80, 24)) as it:
        form = await open_form(it, *fields)
        await it.until(lambda: "fields 1 to " in it.text() and "see every page" in it.text(), "the first page")
        assert "more line" not in it.text()
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "see every page of the form first" in it.text(), "why it is not sent")
        assert form.has_pages


async def test_an_entered_secret_is_masked_but_a_secret_from_the_server_is_shown(run: Run) -> None:
    mine = Field(name="pat", kind="text", title="Access key", secret=True)
    theirs = replace(mine, name="token", title="Token", default="given-by-server")
    async with run(size=(80, 24)) as it:
        form = await open_form(it, mine, theirs)
        await it.pilot.press("tab")
        await it.type("hunter2")
        await it.until(lambda: "•••••••" in it.text(), "the mask")
        assert form.values() == {"pat": "hunter2", "token": "given-by-server"}
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "is not allowed to" in it.text(), "the warning")
        assert "hunter2" not in it.text()
        assert "given-by-server" in it.text()


async def test_a_secret_of_several_lines_is_not_cut_when_it_is_pasted(run: Run) -> None:
    key = Field(name="pat", kind="text", title="Access key", secret=True)
    async with run(size=(80, 24)) as it:
        form = await open_form(it, key)
        await it.pilot.press("tab")
        it.app.screen.focused.post_message(events.Paste("-----BEGIN KEY-----\nline-2\n-----END KEY-----\n"))
        await it.until(lambda: "✗ the pasted text has several lines" in it.text(), "the problem")
        assert form.values() == {"pat": None}
        it.app.screen.focused.post_message(events.Paste("hunter2\n"))
        await it.until(lambda: form.values() == {"pat": "hunter2"}, "the secret of one line")
        await it.until(lambda: "several lines" not in it.text(), "the problem to go")
        it.app.screen.focused.post_message(events.Paste("\n\n"))
        await it.pilot.pause()
        assert form.values() == {"pat": "hunter2"}


async def test_a_single_character_is_counted_in_the_singular(run: Run) -> None:
    code = replace(NOTE_FIELD, name="code", min_length=1, max_length=None)
    short = replace(NOTE_FIELD, name="short", min_length=None, max_length=1)
    async with run(size=(80, 24)) as it:
        await open_form(it, code, short)
        await it.pilot.press("tab")
        await it.until(lambda: "at least 1 character ·" in it.text(), "the least length")
        await it.pilot.press("tab")
        await it.type("ab")
        await it.until(lambda: "must have at most 1 character " in it.text(), "the error")
        assert "at most 1 character ·" in it.text()
        assert "1 characters" not in it.text()


async def test_the_position_in_a_long_list_counts_options_that_were_appended(run: Run) -> None:
    options = tuple(Option(f"o{number}", f"o{number}") for number in range(13))
    async with run(size=(80, 24)) as it:
        form = await open_form(it, replace(TEA, options=options))
        await it.pilot.press("tab", "down")
        await it.until(lambda: "1 of 13" in it.text(), "the position")
        form.rows[0].field_widget.append_options((Option("o13", "o13"),))
        await it.until(lambda: "1 of 14" in it.text(), "the new count")


LONG_CHOICE = form_question(
    Field(
        name="f",
        kind="choice",
        options=tuple(Option(f"{n} " + "word " * 40, f"{n} " + "word " * 40) for n in range(1_000)),
    )
)


async def test_a_list_that_is_laid_out_several_times_at_once_counts_only_its_first_rows_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, visual = 0, ChoiceList._get_visual

    def count(choice_list: ChoiceList, option: Any) -> Any:
        nonlocal counted
        counted += 1
        return visual(choice_list, option)

    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, LONG_CHOICE)
        dialog = await driver.enter_question()
        field = dialog.form.rows[0].field_widget
        await driver.pilot.press("tab")
        with monkeypatch.context() as patches:
            patches.setattr(ChoiceList, "_get_visual", count)
            for _ in range(5):
                field._clear_caches()
                assert "word" in field.render_line(0).text
            assert 0 < counted < 200
        await driver.until(lambda: field.virtual_size.height >= 3_000, "all rows")


async def test_the_rows_of_a_thousand_long_options_are_counted_in_steps(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, most = 0, 0
    run_turn, visual = BaseEventLoop._run_once, ChoiceList._get_visual  # type: ignore[attr-defined]

    def end_turn(loop: BaseEventLoop) -> None:
        nonlocal counted, most
        run_turn(loop)
        most, counted = max(most, counted), 0

    def count(choice_list: ChoiceList, option: Any) -> Any:
        nonlocal counted
        counted += 1
        return visual(choice_list, option)

    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, LONG_CHOICE)
        dialog = await driver.enter_question()
        with monkeypatch.context() as patches:
            patches.setattr(BaseEventLoop, "_run_once", end_turn)
            patches.setattr(ChoiceList, "_get_visual", count)
            await driver.pilot.press("tab", "end")
            field = dialog.form.rows[0].field_widget
            await driver.until(lambda: field.virtual_size.height >= 3_000, "all rows")
            await driver.until(lambda: "999 word" in driver.text(), "the last option")
    assert 0 < most < 200
