"""Tests for filling in a server's form by keyboard: validated while typing, and sent as shown."""

import re
from typing import Any

import pytest
from textual.screen import Screen

from mcphost.host.questions.form_fields import Field, Option, validate_content
from mcphost.host.questions.questions import Accept, Cancel, Decline, FillForm
from mcphost.serialization import replace
from mcphost.tui.forms import choice_list, form_row
from mcphost.tui.forms.form import Form
from mcphost.tui.forms.form_row import FormRow
from tests.screens.ask_question import PendingQuestion
from tests.screens.conftest import Run
from tests.screens.everything_form import everything_fields
from tests.screens.example_fields import AGE_FIELD, NAME_FIELD, NOTE_FIELD, WATCH_FIELD, form_question

pytestmark = pytest.mark.anyio

COLOUR = Field(name="colour", kind="choice", options=(Option("r", "Red"), Option("g", "Green"), Option("b", "Blue")))
FISH = replace(COLOUR, name="fish", kind="choices", min_items=1, max_items=2)


async def fill_and_send(driver: Any, question: FillForm, *steps: str) -> Any:
    """Open the form, type or press *steps*, press Ctrl+S, and return the content that the server receives."""
    waiting = PendingQuestion(driver, question)
    dialog = await driver.enter_question()
    await driver.until(lambda: dialog.is_read, "that all of it was shown")
    for step in steps:
        if step.startswith("'"):
            await driver.type(step[1:])
        else:
            await driver.pilot.press(step)
    await driver.pilot.press("ctrl+s")
    await driver.until(lambda: waiting.answer is not None, "an answer")
    assert isinstance(waiting.answer, Accept)
    return validate_content(question.fields, waiting.answer.content)


@pytest.mark.req("elic.form.string")
@pytest.mark.req("elic.form.number")
@pytest.mark.req("elic.form.boolean")
@pytest.mark.req("elic.form.enum-single")
@pytest.mark.req("elic.form.enum-multi")
@pytest.mark.req("elic.form.required")
@pytest.mark.parametrize(
    ("field", "steps", "content"),
    [
        (NAME_FIELD, ("tab", "'Ada"), {"name": "Ada"}),
        (NOTE_FIELD, (), {}),
        (NOTE_FIELD, ("tab", "'a", "ctrl+j", "'b"), {"note": "a\nb"}),
        (NOTE_FIELD, ("tab", "ctrl+t"), {"note": ""}),
        (NOTE_FIELD, ("tab", "ctrl+t", "ctrl+t"), {}),
        (replace(NOTE_FIELD, required=True), ("tab", "ctrl+t"), {"note": ""}),
        (replace(NOTE_FIELD, default="as it was"), (), {"note": "as it was"}),
        (replace(NOTE_FIELD, default="x"), ("tab", "backspace"), {}),
        (AGE_FIELD, (), {"age": 30}),
        (AGE_FIELD, ("tab", "backspace", "backspace", "'7"), {"age": 7}),
        (AGE_FIELD, ("tab", "backspace", "backspace"), {}),
        (replace(AGE_FIELD, kind="number", default=None), ("tab", "'2.5"), {"age": 2.5}),
        (replace(AGE_FIELD, kind="number", default=None, minimum=None), ("tab", "'-1e2"), {"age": -100.0}),
        (WATCH_FIELD, (), {}),
        (WATCH_FIELD, ("tab", "space"), {"watch": True}),
        (WATCH_FIELD, ("tab", "space", "space"), {"watch": False}),
        (WATCH_FIELD, ("tab", "n"), {"watch": False}),
        (WATCH_FIELD, ("tab", "right"), {"watch": True}),
        (replace(WATCH_FIELD, default=True), ("tab", "right"), {"watch": False}),
        (replace(WATCH_FIELD, default=True), ("tab", "backspace"), {}),
        (COLOUR, (), {}),
        (COLOUR, ("tab", "down", "down", "space"), {"colour": "g"}),
        (COLOUR, ("tab", "down", "down"), {}),
        (COLOUR, ("tab", "end", "space", "home", "space"), {"colour": "r"}),
        (COLOUR, ("tab", "down", "space", "space"), {}),
        (replace(COLOUR, default="b"), ("tab", "up", "space"), {"colour": "g"}),
        (FISH, ("tab", "down", "space", "end", "space"), {"fish": ["r", "b"]}),
        (replace(FISH, default=["r", "b"]), ("tab", "space"), {"fish": ["b"]}),
        (replace(FISH, default=["r"]), ("tab", "backspace"), {}),
        (replace(FISH, required=True, min_items=None), (), {"fish": []}),
    ],
)
async def test_a_field_is_filled_in_by_keyboard_and_sent_with_its_type(
    run: Run, field: Field, steps: tuple[str, ...], content: dict[str, Any]
) -> None:
    async with run(size=(80, 24)) as driver:
        result = await fill_and_send(driver, form_question(field), *steps)
    assert result == content
    assert [type(value) for value in result.values()] == [type(value) for value in content.values()]


@pytest.mark.req("elic.form.validate")
@pytest.mark.parametrize(
    ("field", "typed", "problem", "mended"),
    [
        (NAME_FIELD, "A", "must have at least 2 characters", "da"),
        (replace(NOTE_FIELD, max_length=2), "abc", "must have at most 2 characters", "\b"),
        (replace(NOTE_FIELD, format="email"), "ada", "must be an email address", "@x.org"),
        (replace(NOTE_FIELD, format="uri"), "x", "must be an address with its scheme", ":y"),
        (replace(NOTE_FIELD, format="date"), "2026-02-3", "must be a date", "\b28"),
        (replace(NOTE_FIELD, format="date-time"), "2026", "must be a date and time with its zone", "-07-28T12:00:00Z"),
        (replace(AGE_FIELD, default=None), "151", "must be at most 150", "\b"),
        (replace(AGE_FIELD, default=None), "0", "must be at least 1", "\b1"),
        (replace(AGE_FIELD, default=None), "1.5", "must be a whole number", "\b\b"),
        (replace(AGE_FIELD, default=None), "x", "must be a whole number", "\b5"),
        (replace(AGE_FIELD, default=None), "nan", "must be a whole number", "\b\b\b5"),
    ],
)
async def test_an_invalid_value_is_reported_below_the_field_while_typing(
    run: Run, field: Field, typed: str, problem: str, mended: str
) -> None:
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(field))
        await driver.enter_question()
        await driver.pilot.press("tab")
        await driver.type(typed)
        await driver.until(lambda: f"✗ {problem}" in driver.text(), problem)
        # An error is shown, and nothing is sent.
        await driver.pilot.press("ctrl+s")
        await driver.pilot.pause()
        assert waiting.answer is None
        await driver.pilot.press(*("backspace" if char == "\b" else {":": "colon", "@": "at"}.get(char, char)
                               for char in mended.replace("-", "\t")
                               .replace("\t", "-")))  # fmt: skip
        await driver.until(lambda: "✗" not in driver.text(), "that it fits")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: isinstance(waiting.answer, Accept), "the answer")


@pytest.mark.req("elic.review")
@pytest.mark.req("elic.form.required")
async def test_a_form_is_corrected_where_it_is_wrong_and_reviewed_before_it_is_sent(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(NOTE_FIELD, AGE_FIELD, NAME_FIELD))
        await driver.enter_question()
        assert "✗" not in driver.text(), "nothing is wrong before anything was done"
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "✗ is required" in driver.text(), "what is missing")
        await driver.type("Ada")
        await driver.pilot.press("up", "backspace", "backspace", "9", "9", "9", "enter")
        await driver.until(lambda: "✗ must be at most 150" in driver.text(), "what is wrong")
        await driver.pilot.press("ctrl+s", "backspace", "enter", "enter")
        assert driver.app.focused.id == "send"
        assert all(words in driver.text() for words in ("not sent", "99", "Ada"))
        assert waiting.answer is None
        await driver.pilot.press("enter")
        await driver.until(lambda: waiting.answer is not None, "an answer")
    assert waiting.answer == Accept({"note": None, "age": 99, "name": "Ada"})


@pytest.mark.req("elic.actions")
async def test_escape_in_a_field_goes_back_to_the_buttons_and_leaves_from_there(run: Run) -> None:
    async with run() as driver:
        waiting = PendingQuestion(driver, form_question(NAME_FIELD))
        await driver.enter_question()
        await driver.pilot.press("tab", "d", "a", "escape")
        assert driver.app.focused.id == "refuse"
        assert waiting.answer is None
        assert "da" in driver.text(), "what was typed is still there"
        await driver.pilot.press("escape")
        await driver.until(lambda: "press esc again to discard what you entered" in driver.text(), "the warning")
        assert waiting.answer is None
        await driver.pilot.press("escape")
        await driver.until(lambda: waiting.answer == Cancel(), "leaving")


async def test_escape_leaves_an_untouched_form_at_once(run: Run) -> None:
    async with run() as driver:
        waiting = PendingQuestion(driver, form_question(NAME_FIELD))
        await driver.enter_question()
        await driver.pilot.press("escape")
        await driver.until(lambda: waiting.answer == Cancel(), "leaving")


async def test_escape_keeps_json_that_was_edited_until_it_is_pressed_again(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(NAME_FIELD))
        dialog = await driver.enter_question()
        await driver.pilot.press("ctrl+e", "x", "ctrl+s")
        await driver.until(lambda: "line 1, column" in driver.text(), "where the error is")
        await driver.pilot.press("escape")
        await driver.until(lambda: "press esc again to discard what you entered" in driver.text(), "the warning")
        assert dialog.query_one("#content").display
        await driver.pilot.press("tab", "escape")
        await driver.until(lambda: not dialog.query_one("#content").display, "the form")
        await driver.until(lambda: "esc cancel" in driver.text(), "the keys of the buttons")


@pytest.mark.req("elic.actions")
async def test_sending_declining_and_leaving_are_distinguished_in_words(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(NOTE_FIELD))
        await driver.enter_question()
        for words in (" Cancel ", " Decline ", " Send "):
            assert words in driver.text(), words
        await driver.until(lambda: "Cancel tells the server that you gave no answer" in driver.text(), "what it means")
        await driver.pilot.press("right")
        await driver.until(lambda: "Decline tells the server that you said no" in driver.text(), "what it means")
        await driver.pilot.press("right")
        await driver.until(lambda: "tells the server" not in driver.text(), "an empty line")
        await driver.pilot.press("left")
        await driver.pilot.press("enter")
        await driver.until(lambda: waiting.answer == Decline(), "the no")


async def test_letters_typed_while_the_focus_is_on_the_buttons_answer_nothing(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(replace(NOTE_FIELD, default="x"), WATCH_FIELD))
        dialog = await driver.enter_question()
        await driver.type("abcdefghijklmnopqrstuvwxyzy1")
        await driver.pilot.pause()
        assert waiting.answer is None
        assert dialog.query_one(Form).values() == {"note": "x", "watch": None}
        # In a field these are editing keys.
        await driver.pilot.press("tab", "ctrl+d", "ctrl+e", "tab", "ctrl+d", "ctrl+e")
        assert waiting.answer is None
        assert driver.app.screen is dialog


async def test_tab_cycles_through_the_fields_and_the_buttons_as_one_stop(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, form_question(NOTE_FIELD, WATCH_FIELD, COLOUR))
        dialog = await driver.enter_question()
        controls = [row.field_widget for row in dialog.query_one(Form).rows]
        recorded: list[Any] = []
        for _ in range(5):
            await driver.pilot.press("tab")
            recorded.append(driver.app.focused)
        assert recorded == [*controls, dialog.query_one("#send"), controls[0]]
        await driver.pilot.press("shift+tab")
        assert driver.app.focused.id == "refuse"
        await driver.pilot.press("shift+tab")
        assert driver.app.focused is controls[2]
        await driver.pilot.press("escape", "left")
        assert driver.app.focused.id == "send"


@pytest.mark.req("elic.form.defaults")
@pytest.mark.req("elic.form.enum-names")
async def test_the_reference_servers_form_of_thirteen_fields_fits_a_small_terminal(run: Run) -> None:
    fields = everything_fields()
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(*fields))
        dialog = await driver.enter_question()
        await driver.pilot.press("tab")
        await driver.type("Ada")
        for field, row in zip(fields, dialog.query_one(Form).rows, strict=True):
            assert driver.app.focused is row.field_widget
            await driver.pilot.pause()
            shown = re.sub(r"\s+", " ", driver.text().replace("│", " "))
            words = [word for word in re.split(r"\s+", field.description) if word]
            assert all(word in shown for word in words), f"{field.name} says what it is about:\n{driver.text()}"
            assert "Send" in shown
            await driver.pilot.press("tab")
        assert driver.app.focused.id == "send"
        await driver.pilot.press("enter")
        await driver.until(lambda: waiting.answer is not None, "an answer")
    assert validate_content(fields, waiting.answer.content) == {
        "name": "Ada", "firstLine": "It was a dark and stormy night.", "integer": 42, "number": 3.14,
        "untitledSingleSelectEnum": "Monica", "untitledMultipleSelectEnum": ["Guitar"],
        "titledSingleSelectEnum": "hero-1", "titledMultipleSelectEnum": ["fish-1"], "legacyTitledEnum": "pet-1",
    }  # fmt: skip


@pytest.mark.req("elic.form.no-secrets")
async def test_secret_like_input_shows_a_warning_and_is_sent_only_when_sent_twice(run: Run) -> None:
    question = form_question(
        Field(name="pat", kind="text", title="Access key", secret=True), NOTE_FIELD, warnings=("It asks for…",)
    )
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, question)
        await driver.enter_question()
        assert "looks like a secret: do not send it" in driver.text()
        await driver.pilot.press("tab", "s", "3", "ctrl+s")
        await driver.until(lambda: "quiz is not allowed to ask for" in driver.text(), "the warning")
        assert waiting.answer is None
        assert driver.app.focused.id == "decline"
        # Changes since then are asked about again.
        await driver.pilot.press("tab", "x", "ctrl+s")
        await driver.pilot.pause()
        assert waiting.answer is None
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: waiting.answer == Accept({"pat": "s3x", "note": None}), "the answer")


async def test_an_omitted_secret_field_does_not_block(run: Run) -> None:
    question = form_question(Field(name="pat", kind="text", secret=True), NOTE_FIELD)
    async with run(size=(80, 24)) as driver:
        assert await fill_and_send(driver, question, "tab", "tab", "'hi") == {"note": "hi"}


async def test_a_default_with_hidden_characters_is_shown_with_marks_and_can_be_emptied(run: Run) -> None:
    hostile = replace(NOTE_FIELD, default="a\u202eb\x1b[31mc")
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(hostile))
        await driver.enter_question()
        assert "a‹U+202E›b␛[31mc" in driver.text()
        await driver.pilot.press("tab", "backspace")
        await driver.until(lambda: "not sent" in driver.text(), "the empty field")
        await driver.type("x")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: waiting.answer == Accept({"note": "x"}), "the answer")


async def test_hidden_characters_that_were_pasted_are_shown(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, form_question(NOTE_FIELD))
        dialog = await driver.enter_question()
        await driver.pilot.press("tab")
        dialog.query_one(Form).rows[0].field_widget.text = "pay\u200bpal"
        await driver.until(lambda: "contains hidden characters: pay‹U+200B›pal" in driver.text(), "the mark")


async def test_the_same_form_can_be_edited_as_json(run: Run) -> None:
    async with run(size=(100, 34)) as driver:
        waiting = PendingQuestion(driver, form_question(NAME_FIELD, AGE_FIELD, NOTE_FIELD))
        dialog = await driver.enter_question()
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: '"name": null' in driver.text(), "the editor")
        dialog.query_one("#content").text = '{"name": "Ada", "age": 200}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "'age' must be at most 150" in driver.text(), "what is wrong")
        dialog.query_one("#content").text = '{"name": "Ada", "age": null, "note": ""}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.app.focused.id == "send", "the form")
        assert "Ada" in driver.text()
        assert waiting.answer is None
        await driver.pilot.press("enter")
        await driver.until(lambda: waiting.answer is not None, "an answer")
    assert waiting.answer == Accept({"name": "Ada", "age": None, "note": ""})


async def test_a_form_of_a_hundred_fields_and_a_thousand_choices_opens(run: Run) -> None:
    many = tuple(Option(f"v{n}", f"Value {n}") for n in range(1_000))
    fields = tuple(
        Field(name=f"f{n}", kind="choice", options=many) if n % 2 else replace(NOTE_FIELD, name=f"f{n}")
        for n in range(100)
    )
    async with run(size=(80, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(*fields))
        await driver.enter_question()
        for first in range(11, 101, 10):
            for _ in range(10):
                if f"fields {first} to {first + 9} of 100" not in driver.text():
                    await driver.pilot.press("pagedown")
        await driver.pilot.press("shift+tab", "end")
        await driver.until(lambda: "1000 of 1000" in driver.text(), "the last choice")
        await driver.pilot.press("space", "ctrl+s")
        await driver.until(lambda: waiting.answer is not None, "an answer")
    assert waiting.answer.content["f99"] == "v999"


async def test_a_letter_typed_into_one_of_thirteen_fields_updates_only_that_field(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run(size=(100, 32)) as driver:
        PendingQuestion(driver, form_question(*everything_fields()))
        dialog = await driver.enter_question()
        await driver.pilot.press("tab", "a")
        await driver.pilot.pause()
        layouts, looks = [0], set[str]()
        lay_out, look = type(dialog)._refresh_layout, FormRow.update_note

        def counted(self: Any, *args: Any, **more: Any) -> None:
            layouts[0] += 1
            lay_out(self, *args, **more)

        def looked(self: FormRow) -> None:
            looks.add(self.field.name)
            look(self)

        monkeypatch.setattr(type(dialog), "_refresh_layout", counted)
        monkeypatch.setattr(FormRow, "update_note", looked)
        await driver.type("bcdefghijklmnopqrstu")
        assert dialog.form.rows[0].value == "abcdefghijklmnopqrstu"
        assert looks == {"name"}
        assert layouts[0] <= 3, "twenty letters"


async def test_no_field_is_ever_drawn_without_its_title(run: Run) -> None:
    rows = Form(everything_fields()).rows
    for row in rows:  # before any size is known
        assert str(row.label.content).startswith(row.field.title[:30])
    async with run(size=(100, 32)) as driver:
        PendingQuestion(driver, form_question(*everything_fields()))
        dialog = await driver.enter_question()
        assert [row.label.outer_size.width for row in dialog.form.rows] == [dialog.form.label_cells] * 13


def many_fields(count: int) -> tuple[Field, ...]:
    """Return text fields with the names f1, f2 and so on."""
    return tuple(Field(name=f"f{n}", kind="text", title=f"Field {n}") for n in range(1, count + 1))


def drawn_fields(dialog: Any) -> list[str]:
    """Return the names of the fields that are laid out now."""
    return [row.field.name for row in dialog.form.rows if row.is_attached and row.region.height]


async def test_a_long_form_lays_out_one_page_of_fields_and_mounts_at_most_two(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*many_fields(100)))
        dialog = await driver.enter_question()
        await driver.until(lambda: "fields 1 to 10 of 100" in driver.text(), "the first page")
        assert drawn_fields(dialog) == [f"f{n}" for n in range(1, 11)]
        assert sum(row.is_attached for row in dialog.form.rows) <= 20
        await driver.pilot.press("pagedown")
        await driver.until(lambda: "fields 11 to 20 of 100" in driver.text(), "the second page")
        assert drawn_fields(dialog) == [f"f{n}" for n in range(11, 21)]


async def test_a_long_form_lays_out_few_new_fields_at_a_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    composed, most = 0, 0
    compose, lay_out = FormRow.compose, Screen._refresh_layout

    def counted(row: FormRow) -> Any:
        nonlocal composed, most
        composed += 1
        most = max(most, composed)
        return compose(row)

    def laid_out(screen: Any, *args: Any, **options: Any) -> None:
        nonlocal composed
        composed = 0
        lay_out(screen, *args, **options)

    monkeypatch.setattr(FormRow, "compose", counted)
    monkeypatch.setattr(Screen, "_refresh_layout", laid_out)
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*many_fields(100)))
        dialog = await driver.enter_question()
        await driver.until(lambda: len(drawn_fields(dialog)) == 10, "the first page")
        await driver.pilot.press("pagedown")
        await driver.until(lambda: drawn_fields(dialog)[-1:] == ["f20"], "the second page")
    assert 1 <= most <= 5


async def test_finding_the_focused_field_creates_no_field_of_another_page(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    create = form_row.create_field_widget

    def recorded(field: Field, value: Any, **options: Any) -> Any:
        made.append(field.name)
        return create(field, value, **options)

    monkeypatch.setattr(form_row, "create_field_widget", recorded)
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(NAME_FIELD))
        dialog = await driver.enter_question()
        form = Form(many_fields(100))
        await dialog.query_one("#body").mount(form)
        assert form.current_row is None
        assert len(made) <= 11


async def test_a_form_of_fourteen_fields_has_two_pages_and_one_of_thirteen_has_one(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*many_fields(14)))
        await driver.enter_question()
        await driver.until(lambda: "fields 1 to 7 of 14" in driver.text(), "the first page")
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*many_fields(13)))
        dialog = await driver.enter_question()
        await driver.until(lambda: len(drawn_fields(dialog)) == 13, "all fields")
        assert "of 13" not in driver.text()


async def test_a_long_form_cannot_be_sent_before_its_last_page_was_shown(run: Run) -> None:
    fields = tuple(replace(field, default=f"value of {field.name}") for field in many_fields(25))
    async with run(size=(100, 40)) as driver:
        waiting = PendingQuestion(driver, form_question(*fields))
        await driver.enter_question()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "see every page of the form first" in driver.text(), "the reason")
        await driver.until(lambda: "fields 9 to 16 of 25" in driver.text(), "the next page")
        assert waiting.answer is None
        await driver.pilot.press("pagedown")
        await driver.until(lambda: "value of f25" in driver.text(), "the last page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: waiting.answer is not None, "an answer")
    assert waiting.answer.content == {field.name: f"value of {field.name}" for field in fields}


async def test_tab_and_typing_go_on_from_one_page_to_the_next_and_back(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*many_fields(30)))
        dialog = await driver.enter_question()
        await driver.until(lambda: dialog.form.rows[19].is_mounted, "that the second page is prepared")
        keys = [key for n in range(12) for key in ("tab", chr(ord("a") + n))]
        driver.press_together(*keys, "shift+tab", "shift+tab", "x")
        await driver.until(lambda: dialog.form.rows[9].value == "jx", "the letter in the last field of the first page")
        assert [row.value for row in dialog.form.rows[:12]] == [*"abcdefghi", "jx", "k", "l"]


async def test_sending_shows_the_page_with_the_invalid_field(run: Run) -> None:
    fields = many_fields(30)
    fields = (*fields[:16], replace(fields[16], required=True), *fields[17:])
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*fields))
        dialog = await driver.enter_question()
        await driver.pilot.press("end")
        await driver.until(lambda: "fields 21 to 30 of 30" in driver.text(), "the last page")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: dialog.form.current_row is dialog.form.rows[16], "the invalid field")
        await driver.until(lambda: "fields 11 to 20 of 30" in driver.text(), "its page")
        await driver.until(lambda: "✗" in driver.text(), "the error")


async def test_tab_returns_to_the_invalid_field_of_the_page_that_is_shown_and_ends_the_warning(run: Run) -> None:
    fields = many_fields(30)
    fields = (*fields[:23], replace(AGE_FIELD, default=None), *fields[24:])
    warning = "press esc again to discard what you entered"
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*fields))
        dialog = await driver.enter_question()
        await driver.pilot.press("end")
        await driver.until(lambda: "fields 21 to 30 of 30" in driver.text(), "the last page")
        row = dialog.form.rows[23]
        row.field_widget.text = "x"
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: dialog.form.current_row is row, "the invalid field")
        await driver.pilot.press("escape")
        await driver.pilot.press("escape")
        await driver.until(lambda: warning in driver.text(), "the warning")
        await driver.pilot.resize_terminal(90, 36)
        await driver.until(lambda: dialog.size.width == 90, "the new size")
        await driver.pilot.press("tab")
        await driver.until(lambda: dialog.form.current_row is row, "the invalid field again")
        await driver.until(lambda: warning not in driver.text(), "the end of the warning")


@pytest.mark.parametrize("field", [NAME_FIELD, AGE_FIELD, WATCH_FIELD, COLOUR], ids=lambda field: field.kind)
async def test_page_keys_work_in_each_kind_of_field(run: Run, field: Field) -> None:
    fields = tuple(replace(field, name=f"f{number}") for number in range(30))
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, form_question(*fields))
        dialog = await driver.enter_question()
        await driver.pilot.press("tab", "pagedown")
        await driver.until(lambda: "fields 11 to 20 of 30" in driver.text(), "the second page")
        await driver.until(lambda: dialog.form.current_row is dialog.form.rows[10], "the focus on its first field")
        await driver.pilot.press("pageup")
        await driver.until(lambda: "fields 1 to 10 of 30" in driver.text(), "the first page")


async def test_a_click_turns_the_page_of_a_long_form(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(*many_fields(30)))
        dialog = await driver.enter_question()
        await driver.pilot.click(list(dialog.query("PageLink"))[1])
        await driver.until(lambda: "fields 11 to 20 of 30" in driver.text(), "the second page")
        await driver.pilot.click(next(iter(dialog.query("PageLink"))))
        await driver.until(lambda: "fields 1 to 10 of 30" in driver.text(), "the first page")


def tempting_fields() -> tuple[Field, ...]:
    """Return three pages of fields, of which the second has a costly default and the third an empty required field."""
    fields = [Field(name=f"a{n}", kind="text", default="x") for n in range(10)]
    fields += [Field(name="pay", title="PAY 500 EUR", kind="boolean", default=True)]
    fields += [Field(name=f"b{n}", kind="text", default="x") for n in range(18)]
    return (*fields, Field(name="who", title="Your name", kind="text", required=True))


@pytest.mark.parametrize("way", ["tab", "end", "shift+tab"])
async def test_a_form_is_sent_only_after_all_of_its_pages_were_shown(run: Run, way: str) -> None:
    async with run(size=(100, 40)) as driver:
        waiting = PendingQuestion(driver, form_question(*tempting_fields()))
        dialog = await driver.enter_question()
        await driver.pilot.press(way)
        await driver.until(lambda: "fields 21 to 30 of 30" in driver.text(), "the last page")
        await driver.until(lambda: dialog.form.rows[-1].is_mounted, "its fields")
        await dialog.form.rows[-1].set_value("Bob")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "PAY 500 EUR" in driver.text(), "the page in between")
        assert waiting.answer is None
        await driver.until(lambda: dialog.is_read, "that all pages were seen")
        assert waiting.answer is None
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: waiting.answer is not None, "an answer")
    assert waiting.answer.content["pay"] is True


async def test_escape_while_a_page_is_mounted_does_not_cancel_the_form(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        waiting = PendingQuestion(driver, form_question(*many_fields(50)))
        dialog = await driver.enter_question()
        driver.press_together("shift+tab", "escape")
        await driver.until(lambda: "fields 41 to 50 of 50" in driver.text(), "the last page")
        await driver.until(lambda: dialog.focused is not None, "a focus")
        assert waiting.answer is None


async def test_the_whole_of_a_long_default_is_shown_before_it_can_be_sent(run: Run) -> None:
    text = "\n".join(["Send me the newsletter.", *[""] * 30, "I AGREE TO PAY 500 EUR"])
    async with run(size=(100, 24)) as driver:
        waiting = PendingQuestion(driver, form_question(replace(NOTE_FIELD, default=text)))
        dialog = await driver.enter_question()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "read to the end first" in driver.text(), "the reason")
        assert "PAY 500" not in driver.text()
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.is_read, "the end")
        assert "PAY 500" in driver.text()
        assert waiting.answer is None


async def test_the_selected_options_of_a_list_are_rendered_once_for_all_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = tuple(Option(f"v{n}", f"A long title for value {n}") for n in range(150))
    field = Field(name="many", kind="choices", options=options, default=[option.value for option in options])
    rendered: list[str] = []
    clean_line = choice_list.clean_line

    def counted(text: str, limit: int) -> str:
        rendered.append(text)
        return clean_line(text, limit)

    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, form_question(field))
        monkeypatch.setattr(choice_list, "clean_line", counted)
        await driver.enter_question()
        await driver.until(lambda: "(v9)" in driver.text(), "the options")
    assert len(rendered) <= 12 * len(options), "title and value once for each width, and not for each of 40 rows"
