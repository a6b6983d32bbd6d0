"""Tests for calls that write a file: shown as a diff against the current file, and allowed only when fully read."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.host.questions.questions import AllowOnce, Deny
from mcphost.serialization import replace
from mcphost.tui.dialogs.call_view import argument_sections, render_call
from tests.screens.ask_question import PendingQuestion, ask_and_press, tool_question
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio
COMPARED = "now, compared with this text"


def text_rows(driver: Any) -> list[str]:
    return [line.strip("│ ▐") for line in driver.text().splitlines()]


async def test_text_of_several_lines_is_lines_in_the_colours_of_its_file(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments={"path": "a.py", "content": "def f():\n\treturn 1  \n"}))
        dialog = await driver.enter_question()
        rows = text_rows(driver)
        at = rows.index("content  def f():")
        assert rows[at + 1] == "→   return 1··⏎"
        assert "\\n" not in driver.text()
        (_, content) = dialog.query_one("#sent").pairs[1]
        assert "$accent" in [str(span.style) for span in content.spans]


async def test_texts_inside_of_lists_and_objects_are_lines_too(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        edits = [{"oldText": "a = 1\nb\n", "newText": "a = 2\nb\n", "all": True}]
        PendingQuestion(driver, tool_question(arguments={"path": "a.py", "edits": edits}))
        await driver.enter_question()
        rows = text_rows(driver)
        assert "edits[0].oldText → edits[0].newText: +1 −1 lines" in rows
        assert [row for row in rows if row[:2] in ("- ", "+ ")] == ["- a = 1", "+ a = 2"]
        at = rows.index("edits[0].oldText  a = 1")
        assert rows[at + 1 : at + 5] == ["b⏎", "edits[0].newText  a = 2", "b⏎", "edits[0].all      true"]


async def test_the_file_that_is_there_is_compared_with_the_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\x1b[2J\n")
    async with run(size=(80, 24)) as driver:
        arguments = {"path": "a.py", "content": "one\nthree\n"}
        pending = PendingQuestion(driver, tool_question(arguments=arguments, folder=str(tmp_path)))
        await driver.until(lambda: COMPARED in driver.text(), "the difference")
        rows = text_rows(driver)
        assert f"a.py {COMPARED}: +1 −1 lines" in rows
        assert "- two␛[2J" in rows
        assert "+ three" in rows
        assert rows.index("+ three") < rows.index("content  one")
        await driver.enter_question()
        await driver.pilot.press("tab", "a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


async def test_a_missing_file_is_shown_as_new(run: Run, tmp_path: Path) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments={"path": "b/new.py", "content": "x\n"}, folder=str(tmp_path)))
        await driver.until(lambda: "b/new.py does not exist yet" in driver.text(), "that it is new")


async def test_an_edited_call_is_compared_again(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    async with run(size=(120, 40)) as driver:
        PendingQuestion(driver, tool_question(arguments={"path": "a", "content": "old"}, folder=str(tmp_path)))
        await driver.until(lambda: "no difference" in driver.text(), "that nothing differs")
        await driver.enter_question()
        await driver.pilot.press("tab", "e", "tab", "7", "ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text() and "+ old7" in driver.text(), "the new difference")


async def test_a_diff_does_not_replace_reading_the_arguments(run: Run, tmp_path: Path) -> None:
    lines = [f"line {n}" for n in range(200)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    async with run(size=(80, 24)) as driver:
        arguments = {"path": "a.txt", "content": "\n".join([*lines, "the end"])}
        pending = PendingQuestion(driver, tool_question(arguments=arguments, folder=str(tmp_path)))
        await driver.until(lambda: COMPARED in driver.text(), "the difference")
        await driver.enter_question()
        await driver.pilot.press("tab", "a")
        assert pending.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: "the end" in driver.text() and "s session" in driver.text(), "the end")
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


async def test_a_text_being_mounted_does_not_count_as_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments={"content": "\n".join(f"line {n}" for n in range(200))}))
        dialog = await driver.enter_question()
        body, before = dialog.query_one("#body"), dialog._body_version
        mount, recorded = body.mount, []

        def late(*widgets: Any) -> Any:
            done = mount(*widgets)
            dialog._mark_shown(before)  # the first layout was requested before this text came
            recorded.append(dialog.is_read)
            return done

        monkeypatch.setattr(body, "mount", late)
        await dialog.show_body()
        assert recorded == [False]
        assert not dialog.is_read


async def test_an_unreadable_file_leaves_the_question_unchanged(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        question = tool_question(arguments={"path": "/proc/self/environ", "content": "x\ny"}, folder="/")
        assert await ask_and_press(driver, question, "escape") == Deny()
        assert await ask_and_press(driver, replace(question, folder=None), "escape") == Deny()


def test_every_leaf_is_shown_with_its_place() -> None:
    nested = {"a b": ["x\ny", {"c": None, "d": []}], "e": "f"}
    shown = dict(render_call({"n": nested, "plain": {"k": "v"}}).pairs)
    assert shown == {
        'n["a b"][0]': "x\ny", 'n["a b"][1].c': "null", 'n["a b"][1].d': "[]", "n.e": "f", "plain": '{"k":"v"}',
    }  # fmt: skip
    assert argument_sections({"n": nested})[0] == ('── argument 1 of 1: n["a b"][0]', "x\ny")


def test_a_flood_of_values_is_folded_into_one_and_so_is_a_too_deep_one() -> None:
    wide = {"n": ["a\nb"] * 5_000}
    assert [name for name, _ in render_call(wide).pairs] == ["n"]
    deep: Any = "a\nb"
    for _ in range(20):
        deep = [deep]
    assert [name for name, _ in render_call({"n": deep}).pairs] == ["n"]
    many = {f"n{n}": ["a\nb"] * 150 for n in range(100)}
    assert len(render_call(many).pairs) < 1_300


def test_hidden_characters_in_lines_are_marked_and_reported() -> None:
    shown = render_call({"path": "a.py", "content": "x = 1  # \u202e\n\x1b[2J\n"})
    assert shown.readability.has_hidden_characters
    assert shown.pairs[1] == ("content", "x = 1  # ‹U+202E›\n␛[2J⏎")
    assert shown.languages == {1: "python"}
