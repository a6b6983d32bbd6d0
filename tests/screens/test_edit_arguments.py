"""Arguments edited before a call is allowed: a form of the tool's schema, checked, shown again and sent as shown."""

from typing import Any

import pytest

from mcphost.host.questions.questions import AllowOnce
from tests.screens.ask_question import EDITABLE_ARGUMENTS, PendingQuestion, open_argument_editor, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


async def save_and_allow(it: Any, asked: Any) -> Any:
    """What is sent once the edited call was allowed."""
    await it.pilot.press("ctrl+s")
    await it.until(lambda: "edited by you" in it.text(), "the edited call")
    assert asked.answer is None
    await it.enter_question()
    await it.pilot.press("end")
    await it.until(lambda: it.dialog.is_read, "all of it")
    await it.pilot.press("a")
    await it.until(lambda: asked.answer is not None, "the answer")
    assert isinstance(asked.answer, AllowOnce)
    return asked.answer.arguments


async def test_what_is_filled_in_is_sent_and_everything_else_stays_exactly_what_it_was(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_argument_editor(it)
        text = it.text()
        assert "Edit the arguments of files · write_file" in text
        assert "not sent" in text
        await it.pilot.press("end")
        await it.type("/y")
        await it.pilot.press("tab")
        await it.type("7")
        assert await save_and_allow(it, asked) == {
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
async def test_what_was_left_out_is_offered_and_stays_out_unless_it_is_filled_in(
    run: Run, steps: tuple[str, ...], sent: Any
) -> None:
    async with run(size=(120, 40)) as it:
        asked = await open_argument_editor(it)
        for step in steps:
            await (it.type(step[1:]) if step.startswith("'") else it.pilot.press(step))
        if sent is not None:
            assert await save_and_allow(it, asked) == sent


async def test_an_argument_that_is_emptied_is_left_out_and_shown_as_left_out(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        asked = await open_argument_editor(it, {"path": "/x", "limit": 5})
        await it.pilot.press("tab", "backspace")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "edited by you: 1 removed" in it.text(), "the edited call")
        await it.until(lambda: "removed by you" in it.text(), "the mark")
        await it.enter_question()
        await it.pilot.press("a")
        await it.until(lambda: asked.answer == AllowOnce({"path": "/x"}))


async def test_what_changed_is_marked_against_what_the_model_asked_for(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        await open_argument_editor(it, {"path": "/x", "limit": 5})
        await it.pilot.press("end")
        await it.type("yz")
        await it.pilot.press("tab", "tab", "down", "space", "ctrl+s")
        await it.until(lambda: "edited by you: 1 changed, 1 added" in it.text(), "the edited call")
        pairs = it.app.screen.query_one("#sent")
        assert pairs.pairs == [
            ("path", "/xyz"), ("  asked for", "/x"), ("limit", "5"), ("mode", "r"), ("  asked for", "not set"),
        ]  # fmt: skip
        assert sorted(pairs.pair_styles) == [0, 1, 3, 4]


async def test_what_a_form_cannot_say_is_json_that_the_schema_judges_below_its_field(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        asked = await open_argument_editor(it)
        await it.pilot.press("tab", "tab", "tab", "tab")
        assert it.app.screen.form.current_row.field.name == "sort"
        row = it.app.screen.form.current_row
        row.field_widget.text = '[{"by": 5}]'
        await it.until(lambda: '/0/by: 5 is not of type "string"' in it.text(), "what is wrong, without any key")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "/0/by" in it.text())
        row.field_widget.text = "[{"
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "must be JSON" in it.text(), "that it is none")
        assert row.field_widget.text == "[{"
        row.field_widget.text = '[{"by": "size"}]'
        assert await save_and_allow(it, asked) == {**EDITABLE_ARGUMENTS, "sort": [{"by": "size"}]}


async def test_a_value_that_violates_the_schema_is_reported_and_never_applied(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_argument_editor(it)
        field = it.app.screen.form.current_row
        await it.pilot.press(*["backspace"] * 6)
        await it.type("ab")
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "does not match" in it.text(), "the fault")
        editor = it.app.screen
        assert field.field_widget.text == "ab"
        await it.pilot.press("escape", "escape")
        await it.until(lambda: it.app.screen is not editor, "the question")
        assert "edited by you" not in it.text()
        await it.pilot.press("a")
        await it.until(lambda: asked.answer == AllowOnce())


async def test_escape_leaves_the_field_first_and_changes_nothing(run: Run) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_argument_editor(it)
        editor = it.app.screen
        await it.type("abc")
        await it.pilot.press("escape")
        assert it.app.screen is editor
        assert editor.form.rows[0].field_widget.text == "/tmp/xabc"
        await it.pilot.press("tab", "x", "escape", "escape")
        await it.until(lambda: it.app.screen is not editor, "the question")
        assert it.app.screen.review.arguments == EDITABLE_ARGUMENTS
        assert asked.answer is None
        await it.pilot.press("escape")
        await it.until(lambda: asked.answer is not None)


async def test_the_same_arguments_as_json_and_back_lose_nothing(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        asked = await open_argument_editor(it)
        await it.type("1")
        await it.pilot.press("ctrl+e")
        area = it.app.screen.query_one("#arguments-text")
        await it.until(lambda: '"/tmp/x1"' in area.text, "the JSON")
        assert '"extra": null' in area.text
        area.text = area.text.replace('"extra": null', '"extra": null,')
        await it.pilot.press("ctrl+e")
        await it.until(lambda: "line 9, column 1" in it.text(), "where it breaks")
        area.text = '{"path": "/z", "other": 5, "extra": null}'
        await it.pilot.press("ctrl+e")
        await it.until(lambda: not it.app.screen.is_json and it.app.screen.form.rows[-1].is_mounted, "the form")
        await it.until(lambda: "not in the tool's schema" in it.text(), "what the schema does not know")
        assert await save_and_allow(it, asked) == {"path": "/z", "other": 5, "extra": None}


@pytest.mark.parametrize("schema", [{}, {"properties": []}, "no schema"])
async def test_a_tool_without_a_usable_schema_is_edited_as_json(run: Run, schema: Any) -> None:
    async with run(size=(80, 24)) as it:
        asked = await open_argument_editor(it, {}, schema)
        area = it.app.screen.query_one("#arguments-text")
        assert area.display
        area.text = '["no object"]'
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "one JSON object" in it.text())
        area.text = '{"n": 1}'
        assert await save_and_allow(it, asked) == {"n": 1}


async def test_true_is_not_one_and_edits_back_to_what_was_asked_are_none(run: Run) -> None:
    async with run(size=(120, 40)) as it:
        asked = await open_argument_editor(it, {"n": True}, {})
        await it.pilot.press("ctrl+e")
        area = it.app.screen.query_one("#arguments-text")
        await it.until(lambda: area.display)
        area.text = '{"n": 1}'
        await it.pilot.press("ctrl+s")
        await it.until(lambda: "edited by you: 1 changed" in it.text(), "the change")
        await it.enter_question()
        await it.pilot.press("e", "ctrl+e")
        area = it.app.screen.query_one("#arguments-text")
        await it.until(lambda: area.display)
        area.text = '{"n": true}'
        await it.pilot.press("ctrl+s")
        await it.until(lambda: it.app.screen.query("#sent"), "the question")
        await it.until(lambda: "edited by you" not in it.text(), "the call as it was")
        await it.enter_question()
        await it.pilot.press("s")
        await it.until(lambda: asked.answer is not None)


async def test_keys_typed_right_after_those_that_open_something_agree_to_nothing(run: Run) -> None:
    async with run() as it:
        asked = PendingQuestion(it, tool_question())
        dialog = await it.enter_question()
        await it.pilot.press("r")
        dialog.action_once()
        await it.pilot.pause()
        assert asked.answer is None
        await it.pilot.press("escape", "e")
        await it.until(lambda: it.app.screen is not dialog)
        dialog.action_once()
        dialog.action_session()
        await it.pilot.pause()
        assert asked.answer is None
        await it.pilot.press("escape", "escape", "escape")
        await it.until(lambda: asked.answer is not None)
