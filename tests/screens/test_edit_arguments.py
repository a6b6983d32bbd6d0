"""Tests for editing a call's arguments before allowing it: validated, shown again, and sent exactly as shown."""

from typing import Any

import pytest

from mcphost.host.questions.questions import AllowOnce
from tests.screens.ask_question import EDITABLE_ARGUMENTS, PendingQuestion, open_argument_editor, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


async def save_and_allow(driver: Any, asked: Any) -> Any:
    """Save the edited arguments and allow the call; return the arguments that were sent."""
    await driver.pilot.press("ctrl+s")
    await driver.until(lambda: "edited by you" in driver.text(), "the edited call")
    assert asked.answer is None
    await driver.enter_question()
    await driver.pilot.press("end")
    await driver.until(lambda: driver.dialog.is_read, "all of it")
    await driver.pilot.press("a")
    await driver.until(lambda: asked.answer is not None, "the answer")
    assert isinstance(asked.answer, AllowOnce)
    return asked.answer.arguments


async def test_filled_in_fields_are_sent_and_all_others_stay_exactly_as_they_were(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_argument_editor(driver)
        text = driver.text()
        assert "Edit the arguments of files · write_file" in text
        assert "not sent" in text
        await driver.pilot.press("end")
        await driver.type("/y")
        await driver.pilot.press("tab")
        await driver.type("7")
        assert await save_and_allow(driver, pending) == {
            "path": "/tmp/x/y", "sort": [{"by": "name"}], "extra": None, "limit": 7,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "sent"),
    [
        (("down", "'5"), {**EDITABLE_ARGUMENTS, "limit": 5}),
        (("down", "down", "down", "space"), {**EDITABLE_ARGUMENTS, "mode": "r"}),
        (("down", "down", "up", "up", "shift+tab", "shift+tab", "shift+tab", "backspace"), None),
        (("tab", "tab", "tab", "y"), {**EDITABLE_ARGUMENTS, "deep": True}),
    ],
)
async def test_omitted_fields_are_offered_and_stay_omitted_unless_filled_in(
    run: Run, steps: tuple[str, ...], sent: Any
) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver)
        for step in steps:
            await (driver.type(step[1:]) if step.startswith("'") else driver.pilot.press(step))
        if sent is not None:
            assert await save_and_allow(driver, pending) == sent


async def test_an_argument_that_is_emptied_is_left_out_and_shown_as_left_out(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver, {"path": "/x", "limit": 5})
        await driver.pilot.press("tab", "backspace")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "edited by you: 1 removed" in driver.text(), "the edited call")
        await driver.until(lambda: "removed by you" in driver.text(), "the mark")
        await driver.enter_question()
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce({"path": "/x"}))


async def test_arguments_of_too_many_lines_are_not_put_into_a_text_area(run: Run) -> None:
    arguments = {f"name{number}": number for number in range(6_000)}
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments=arguments, editable=True))
        dialog = await driver.enter_question()
        await driver.pilot.press("e")
        await driver.until(lambda: "more than 5,000 lines of JSON" in driver.text(), "the reason")
        assert driver.dialog is dialog
        assert pending.answer is None


@pytest.mark.parametrize("edit", ["xyz", ""])
async def test_a_key_pressed_as_the_editor_closes_does_not_approve_the_arguments_from_before(
    run: Run, edit: str
) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver, {"path": "/x", "limit": 5})
        await driver.pilot.press("end")
        await driver.type(edit)
        question, editor = driver.app.screen_stack[-2:]
        close = editor.on_dismissed

        def close_and_press(answer: Any) -> None:
            close(answer)
            driver.press_together("a")

        editor.on_dismissed = close_and_press
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.app.screen is not editor, "the end of editing")
        await driver.until(lambda: driver.dialog is question and question.is_read, "the question")
        assert pending.answer is None
        await driver.until(lambda: not question.guard.is_blocking(0.0, is_letter=True), "the end of the delay")
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer is not None, "the answer")
        assert pending.answer == AllowOnce({"path": "/xxyz", "limit": 5} if edit else None)


async def test_changes_are_marked_against_the_models_original(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        await open_argument_editor(driver, {"path": "/x", "limit": 5})
        await driver.pilot.press("end")
        await driver.type("yz")
        await driver.pilot.press("tab", "tab", "down", "space", "ctrl+s")
        await driver.until(lambda: "edited by you: 1 changed, 1 added" in driver.text(), "the edited call")
        pairs = driver.app.screen.query_one("#sent")
        assert pairs.pairs == [
            ("path", "/xyz"), ("  asked for", "/x"), ("limit", "5"), ("mode", "r"), ("  asked for", "not set"),
        ]  # fmt: skip
        assert sorted(pairs.pair_styles) == [0, 1, 3, 4]


async def test_unsupported_fields_are_json_that_is_validated_by_the_schema_below_the_field(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver)
        await driver.pilot.press("tab", "tab", "tab", "tab")
        assert driver.app.screen.form.current_row.field.name == "sort"
        assert 'JSON [{"by"?: string}]' in driver.text()
        row = driver.app.screen.form.current_row
        row.field_widget.text = '[{"by": 5}]'
        await driver.until(
            lambda: '/0/by: 5 is not of type "string"' in driver.text(), "what is wrong, without any key"
        )
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "/0/by" in driver.text())
        row.field_widget.text = "[{"
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: 'must be JSON of the form [{"by"?: string}]' in driver.text(), "that it is none")
        assert row.field_widget.text == "[{"
        row.field_widget.text = '[{"by": "size"}]'
        assert await save_and_allow(driver, pending) == {**EDITABLE_ARGUMENTS, "sort": [{"by": "size"}]}


async def test_a_value_that_violates_the_schema_is_reported_and_never_applied(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_argument_editor(driver)
        field = driver.app.screen.form.current_row
        await driver.pilot.press(*["backspace"] * 6)
        await driver.type("ab")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "does not match" in driver.text(), "the fault")
        editor = driver.app.screen
        assert field.field_widget.text == "ab"
        await driver.pilot.press("escape", "escape")
        await driver.until(lambda: driver.app.screen is not editor, "the question")
        assert "edited by you" not in driver.text()
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce())


async def test_escape_leaves_the_field_first_and_changes_nothing(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_argument_editor(driver)
        editor = driver.app.screen
        await driver.type("abc")
        await driver.pilot.press("escape")
        assert driver.app.screen is editor
        assert editor.form.rows[0].field_widget.text == "/tmp/xabc"
        await driver.pilot.press("tab", "x", "escape", "escape")
        await driver.until(lambda: driver.app.screen is not editor, "the question")
        assert driver.app.screen.review.arguments == EDITABLE_ARGUMENTS
        assert pending.answer is None
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer is not None)


async def test_the_same_arguments_as_json_and_back_lose_nothing(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver)
        await driver.type("1")
        await driver.pilot.press("ctrl+e")
        area = driver.app.screen.query_one("#arguments-text")
        await driver.until(lambda: '"/tmp/x1"' in area.text, "the JSON")
        assert '"extra": null' in area.text
        area.text = area.text.replace('"extra": null', '"extra": null,')
        await driver.pilot.press("ctrl+e")
        await driver.until(lambda: "line 9, column 1" in driver.text(), "where it breaks")
        area.text = '{"path": "/z", "other": 5, "extra": null}'
        await driver.pilot.press("ctrl+e")
        await driver.until(
            lambda: not driver.app.screen.is_json and driver.app.screen.form.rows[-1].is_mounted, "the form"
        )
        await driver.until(lambda: "not in the tool's schema" in driver.text(), "what the schema does not know")
        assert await save_and_allow(driver, pending) == {"path": "/z", "other": 5, "extra": None}


async def test_json_opens_with_an_invalid_field_and_is_still_validated(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver, {"path": "/x", "limit": 5})
        await driver.pilot.press("tab")
        await driver.type("x")
        await driver.pilot.press("ctrl+e")
        area = driver.app.screen.query_one("#arguments-text")
        await driver.until(lambda: '"5x"' in area.text, "the JSON")
        assert '"path": "/x"' in area.text
        await driver.pilot.press("ctrl+s")
        await driver.pilot.pause()
        assert driver.app.screen.is_json
        area.text = '{"path": "/x", "limit": 50}'
        assert await save_and_allow(driver, pending) == {"path": "/x", "limit": 50}


@pytest.mark.parametrize("schema", [{}, {"properties": []}, "no schema"])
async def test_a_tool_without_a_usable_schema_is_edited_as_json(run: Run, schema: Any) -> None:
    async with run(size=(80, 24)) as driver:
        pending = await open_argument_editor(driver, {}, schema)
        area = driver.app.screen.query_one("#arguments-text")
        assert area.display
        area.text = '["no object"]'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "one JSON object" in driver.text())
        area.text = '{"n": 1}'
        assert await save_and_allow(driver, pending) == {"n": 1}


async def test_true_is_not_one_and_edits_back_to_the_original_are_none(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = await open_argument_editor(driver, {"n": True}, {})
        await driver.pilot.press("ctrl+e")
        area = driver.app.screen.query_one("#arguments-text")
        await driver.until(lambda: area.display)
        area.text = '{"n": 1}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "edited by you: 1 changed" in driver.text(), "the change")
        await driver.enter_question()
        await driver.pilot.press("e", "ctrl+e")
        area = driver.app.screen.query_one("#arguments-text")
        await driver.until(lambda: area.display)
        area.text = '{"n": true}'
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: driver.app.screen.query("#sent"), "the question")
        await driver.until(lambda: "edited by you" not in driver.text(), "the call as it was")
        await driver.enter_question()
        await driver.pilot.press("s")
        await driver.until(lambda: pending.answer is not None)


async def test_keys_typed_right_after_those_that_open_something_approve_nothing(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        await driver.pilot.press("r")
        dialog.action_once()
        await driver.pilot.pause()
        assert pending.answer is None
        await driver.pilot.press("escape", "e")
        await driver.until(lambda: driver.app.screen is not dialog)
        dialog.action_once()
        dialog.action_session()
        await driver.pilot.pause()
        assert pending.answer is None
        await driver.pilot.press("escape", "escape", "escape")
        await driver.until(lambda: pending.answer is not None)


@pytest.mark.parametrize(("description", "count"), [("A number", 1), ("a number.", 1), ("The first number", 1)])
async def test_what_a_field_allows_is_not_said_twice(run: Run, description: str, count: int) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "description": description}}}
    async with run(size=(100, 40)) as driver:
        await open_argument_editor(driver, {"a": 1}, schema)
        await driver.until(lambda: description in driver.text(), "the description")
        assert driver.text().lower().count("a number") == count


TAGS_SCHEMA = {
    "type": "object",
    "properties": {"tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}},
}


async def test_a_list_of_texts_is_filled_in_with_a_text_in_each_line(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        asked = await open_argument_editor(driver, {}, TAGS_SCHEMA)
        assert "not sent" in driver.text()
        await driver.pilot.press(*"red", "ctrl+j", *"light", "space", *"blue")
        assert await save_and_allow(driver, asked) == {"tags": ["red", "light blue"]}


async def test_an_empty_list_of_texts_and_null_and_no_list_are_kept_apart(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        asked = await open_argument_editor(driver, {"tags": ["red"]}, TAGS_SCHEMA)
        await driver.pilot.press("backspace", "backspace", "backspace")
        await driver.until(lambda: "not sent" in driver.text(), "no list")
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "the empty list is sent" in driver.text(), "the empty list")
        assert await save_and_allow(driver, asked) == {"tags": []}
    async with run(size=(100, 40)) as driver:
        await open_argument_editor(driver, {"tags": None}, TAGS_SCHEMA)
        assert driver.app.screen.form.rows[0].field_widget.text == "null"


async def test_an_error_in_a_list_of_texts_names_its_line_and_blank_lines_are_said_not_to_be_sent(run: Run) -> None:
    schema = {"properties": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 5}}}}
    async with run(size=(100, 40)) as driver:
        asked = await open_argument_editor(driver, {}, schema)
        await driver.pilot.press(*"red", "ctrl+j", "ctrl+j", "space", "ctrl+j", *"greens")
        await driver.until(lambda: "2 blank lines are not sent" in driver.text(), "what is left out")
        await driver.until(lambda: "line 4: " in driver.text(), "the line of the error")
        assert "/1" not in driver.text()
        await driver.pilot.press("backspace", "ctrl+j")
        await driver.until(lambda: "line 4: " not in driver.text(), "no error")
        assert "2 blank lines are not sent" in driver.text()
        assert await save_and_allow(driver, asked) == {"tags": ["red", "green"]}


async def test_an_error_in_a_list_of_texts_that_is_only_shown_names_its_line(run: Run) -> None:
    schema = {"properties": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 5}}}}
    async with run(size=(100, 40)) as driver:
        await open_argument_editor(driver, {"tags": ["red", "a\u200bbcdefg"]}, schema)
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "line 2: " in driver.text(), "the line of the error")
