"""Tests that a request can be approved only after all of it has been on the screen."""

import json
import re
import threading
from typing import Any

import pytest
from textual._cells import cell_len

from mcphost.host.questions.form_fields import Field
from mcphost.host.questions.questions import (
    Accept,
    AcceptUrl,
    AllowOnce,
    AllowRule,
    AllowSession,
    ApproveUnchanged,
    FillForm,
    ReviewSampling,
    TrustOnce,
    VisitUrl,
)
from mcphost.serialization import replace
from mcphost.tui.dialogs import call_view
from mcphost.tui.dialogs.call_view import MAX_VALUE_CHARACTERS, argument_sections, render_call, summarize_arguments
from mcphost.tui.dialogs.tool_consent import CallReview
from mcphost.tui.widgets.key_values import KeyValueList, QuotedText
from mcphost.tui.widgets.long_text import LongText
from tests.screens.ask_question import LONG_ARGUMENTS, PendingQuestion, ask_and_press, tool_question, trust_question
from tests.screens.conftest import Run
from tests.screens.example_questions import SAMPLING

pytestmark = pytest.mark.anyio


@pytest.mark.req("tools.show-input")
@pytest.mark.parametrize("key", ["a", "s", "A"])
async def test_no_key_allows_a_call_before_the_end_of_its_arguments_was_shown(run: Run, key: str) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments=LONG_ARGUMENTS))
        await driver.enter_question()
        assert "a once: not yet" in driver.text()
        await driver.pilot.press(key)
        assert pending.answer is None
        assert "read to the end first" in driver.text()
        await driver.pilot.press("pagedown", key)
        assert pending.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: "s session · A always" in driver.text(), "the keys that allow")
        await driver.pilot.press(key)
        if key == "A":
            await driver.until(
                lambda: driver.dialog is not None and "Applies from this call on" in driver.text(), "the rule builder"
            )
            await driver.pilot.press("ctrl+s")
        await driver.until(lambda: isinstance(pending.answer, AllowOnce | AllowSession | AllowRule), "the answer")


@pytest.mark.parametrize("key", ["v", "A"])
async def test_the_answers_are_offered_again_after_another_screen_was_open(run: Run, key: str) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        assert "a once · s session · A always" in driver.text()
        await driver.pilot.press(key)
        await driver.until(lambda: driver.app.screen is not dialog, "the other screen")
        await driver.pilot.pause()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog, "the question")
        await driver.until(lambda: "a once · s session · A always" in driver.text(), "the keys that allow")
        assert not dialog.query_one("#once").has_class("locked")
        assert pending.answer is None


async def test_a_click_on_a_button_shows_how_much_is_left_to_read(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments=LONG_ARGUMENTS))
        dialog = await driver.enter_question()
        await driver.pilot.click("#once")
        await driver.until(lambda: "more lines" in driver.text(), "why not")
        assert pending.answer is None
        assert dialog.query_one("#once").has_class("locked")


async def test_lines_below_a_sampling_question_that_can_be_approved_are_not_called_unread(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, SAMPLING)
        dialog = await driver.enter_question()
        await driver.until(lambda: "read to the end first" in driver.text(), "why it is locked")
        while not dialog.is_read:
            await driver.pilot.press("down")
        assert not dialog.query_one("#send").has_class("locked")
        await driver.until(lambda: re.search(r"↓ \d+ more lines? \(down", driver.text()), "what is below")
        assert "to read" not in driver.text()
        assert "read to the end" not in driver.text()
        pending.worker.cancel()


async def test_read_parts_stay_read_after_a_resize_and_edited_ones_are_read_again(run: Run) -> None:
    async with run(size=(120, 40)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments=LONG_ARGUMENTS))
        dialog = await driver.enter_question()
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.is_read)
        await driver.pilot.resize_terminal(80, 24)
        await driver.until(lambda: "s session" in driver.text(), "what it was")
        await driver.pilot.press("e")
        await driver.type("x")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text(), "the edited call")
        await driver.enter_question()
        await driver.pilot.press("a")
        assert pending.answer is None
        assert "not yet" in driver.text()


async def test_a_value_too_long_for_the_dialog_counts_as_unread_until_it_was_read_on_its_page(run: Run) -> None:
    text = "x" * 1_000_000 + "the end"
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments={"text": text}))
        dialog = await driver.enter_question()
        assert f"{1_000_007 - MAX_VALUE_CHARACTERS:,} more characters" in dialog.query_one("#sent").plain
        await driver.pilot.press("end", "a")
        await driver.until(lambda: "are not shown here: read them with v, to the end" in driver.text(), "why not")
        await driver.pilot.press("v")
        await driver.until(lambda: driver.app.screen is not dialog)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog)
        await driver.pilot.press("a")
        assert pending.answer is None
        await driver.pilot.press("v", "end")
        await driver.until(lambda: "the end" in driver.text(), "the end of it")
        await driver.until(lambda: dialog.review.is_fully_shown)
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog)
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce())


@pytest.mark.parametrize("hidden", ["a\u202eb", "a\x1b[2Jb", "a\u200bb", "\U000e0041"])
async def test_a_call_with_hidden_characters_is_allowed_once_at_most(run: Run, hidden: str) -> None:
    async with run(size=(100, 30)) as driver:
        for arguments in ({"text": hidden}, {hidden: 1}, {"deep": [{"er": hidden}]}):
            pending = PendingQuestion(driver, tool_question(arguments=arguments))
            dialog = await driver.enter_question()
            assert not dialog.query_one("#always").display
            await driver.pilot.press("s", "A")
            assert pending.answer is None
            assert "allowed once only" in driver.text()
            await driver.pilot.press("a")
            await driver.until(lambda asked=pending: asked.answer == AllowOnce())


@pytest.mark.parametrize("name", ["", "path ", "  asked for"])
async def test_a_call_with_an_unusual_name_of_an_argument_is_allowed_once_at_most(run: Run, name: str) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments={"path": "/tmp/a", name: "--force"}))
        dialog = await driver.enter_question()
        assert f'"{name}"' in dialog.query_one("#sent").plain
        assert not dialog.query_one("#always").display
        await driver.pilot.press("s", "A")
        assert pending.answer is None
        assert "allowed once only" in driver.text()
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce())


def test_edited_calls_count_as_unread_also_in_the_list_of_calls() -> None:
    reading = CallReview({"a": 1})
    reading.is_end_shown = reading.is_fully_shown = True
    assert reading.is_complete
    assert not reading.edit({"a": 1})
    assert reading.is_complete
    assert reading.edit({"a": True})
    assert not reading.is_complete


async def test_an_edited_call_is_not_allowed_for_the_session(run: Run) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments={"body": "text"}))
        await driver.enter_question()
        await driver.pilot.press("e")
        await driver.type("x")
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "edited by you" in driver.text(), "the edited call")
        await driver.enter_question()
        await driver.pilot.press("s")
        await driver.until(lambda: "an edited call is allowed once, or by a rule" in driver.text(), "why not")
        assert pending.answer is None


@pytest.mark.parametrize("names", [{"tool": "re\u200bad"}, {"server": "fi\u202eles"}])
async def test_a_call_of_a_tool_whose_name_hides_characters_is_allowed_once_at_most(run: Run, names: Any) -> None:
    async with run(size=(100, 30)) as driver:
        pending = PendingQuestion(driver, replace(tool_question(), **names))
        dialog = await driver.enter_question()
        assert not dialog.query_one("#always").display
        await driver.pilot.press("s", "A")
        assert pending.answer is None
        assert "allowed once only" in driver.text()


@pytest.mark.parametrize("width", [40, 60, 79, 80])
async def test_no_button_is_cut_however_narrow_the_screen_is(run: Run, width: int) -> None:
    async with run(size=(width, 24)) as driver:
        PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        for button in dialog.query("#buttons Button"):
            assert str(button.label) in driver.text(), button.label
            assert button.region.right <= width - 4
        assert "╰" in driver.text()


async def test_a_value_cannot_fake_another_argument(run: Run) -> None:
    text = "x" * 68 + " path  /tmp/safe\npath  /tmp/safe"
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments={"path": "/etc/passwd", "text": text}))
        await driver.enter_question()
        rows = [line.strip("│ ▐") for line in driver.text().splitlines()]
        lines = [line for line in driver.text().splitlines() if "│" in line]
        column = next(line.index("path") for line in lines if "/etc/passwd" in line)
        assert any("/tmp/safe" in row for row in rows)
        assert not [line for line in lines if "/tmp/safe" in line and line[column : column + 4] == "path"]


@pytest.mark.parametrize("tail", ["", "é" * 150_000], ids=["cleaned at once", "cleaned row by row"])
async def test_no_argument_can_fake_the_heading_of_another_on_the_page_of_all(run: Run, tail: str) -> None:
    fake = "── argument 2 of 2: path"
    name = f"{'n' * 71} {fake}\n{fake}"
    body = "\n".join([fake, f"{'x' * 75}{fake}", f"{'y ' * 36}{fake}", f"a\r\n{fake}\t", f"│ {fake}", tail])
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments={name: 1, "body": body}))
        dialog = await driver.enter_question()
        await driver.pilot.press("v")
        await driver.until(
            lambda: driver.app.screen is not dialog and bool(driver.app.screen.query(LongText)), "the page"
        )
        view = driver.app.screen.query_one(LongText)
        await driver.until(lambda: view.rows > 8, "its rows")
        rows: list[str] = []
        for y in range(min(view.rows, 40)):
            view.scroll_to(y=y, animate=False, force=True, immediate=True)
            rows.append(view.render_line(y - view.scroll_offset.y).text)
        at_the_margin = [row.strip() for row in rows if row.strip() and not row.startswith(("│ ", "┆ "))]
        assert at_the_margin[0].startswith("── argument 1 of 2:")
        assert at_the_margin[1:] == ["── argument 2 of 2: body"]
        assert sum(fake in row for row in rows) >= 6
        assert all(cell_len(row.rstrip()) < view.size.width for row in rows)


async def test_texts_that_resemble_other_values_are_quoted(run: Run) -> None:
    shown = dict(render_call({"a": "5", "b": 5, "c": "true", "d": " x", "e": "x", "f": "", "g": "(empty text)"}).pairs)
    assert shown == {
        "a": '"5"', "b": "5", "c": '"true"', "d": '" x"', "e": "x", "f": "(empty text)", "g": '"(empty text)"',
    }  # fmt: skip


LONG_OBJECT = {"recursive": True, "path": "/home/user/project", "force": True}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_long_text_that_is_json_never_looks_like_the_object(indent: int | None) -> None:
    text = json.dumps(LONG_OBJECT, indent=indent, separators=None if indent else (",", ":"))
    for given in (text, text[:-1] + ",}"):
        assert render_call({"options": given}).pairs != render_call({"options": LONG_OBJECT}).pairs
        assert argument_sections({"options": given}) != argument_sections({"options": LONG_OBJECT})
        ((name, value),) = render_call({"options": given}).pairs
        assert (name, value[0]) == (("options (text)", "{") if indent else ("options", '"'))


def test_a_long_text_is_in_quotes_only_where_it_reads_as_json() -> None:
    log = "[INFO] " + "started" * 9
    assert dict(render_call({"n": "9" * 50, "log": log}).pairs) == {"n": f'"{"9" * 50}"', "log": log}


@pytest.mark.parametrize("blank", list("\u00a0\u1680\u2003\u202f\u205f\u3000\ue000\U000f0000\U00100000\t"))
def test_a_blank_other_than_space_is_marked_in_arguments_and_counts_as_hidden(blank: str) -> None:
    mark = "\\t" if blank == "\t" else f"‹U+{ord(blank):04X}›"
    for arguments in ({"path": f"a{blank}b"}, {"list": [f"a{blank}b"]}, {"path": f"ab{blank}"}):
        shown = render_call(arguments)
        assert shown.readability.has_hidden_characters
        assert mark in shown.pairs[0][1]
    shown = render_call({f"a{blank}b": 1})
    assert (shown.pairs[0][0].strip('"'), shown.readability.has_hidden_characters) == (f"a{mark}b", True)


def test_blanks_that_are_spelling_are_not_marked_in_arguments() -> None:
    shown = render_call({"text": "日本\u3000東京", "code": "def f():\n\treturn 1\n"})
    assert not shown.readability.has_hidden_characters
    assert shown.pairs[0][1] == "日本\u3000東京"
    assert render_call({"text": "日本\u3000rm"}).readability.has_hidden_characters


async def test_a_call_with_a_blank_other_than_space_is_allowed_once_only(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question(arguments={"path": "/home\u00a0"}))
        await driver.enter_question()
        await driver.pilot.press("end", "s")
        assert pending.answer is None
        assert "‹U+00A0›" in driver.text()
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


async def test_a_long_description_is_shortened_with_a_note_and_complete_on_its_page(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, tool_question(description="words " * 1_000 + "THE END"))
        dialog = await driver.enter_question()
        said = "".join(str(item) for item in dialog.body())
        assert "… 2,007 more characters of the description: v shows all of it" in said
        await driver.pilot.press("v")
        await driver.until(lambda: "how the server describes the tool" in driver.text(), "the page")
        await driver.pilot.press("end")
        await driver.until(lambda: "THE END" in driver.text(), "the end")
        assert pending.answer is None
        await driver.pilot.press("escape")


async def test_a_flood_of_arguments_is_cut_and_cannot_be_agreed_to_unread(run: Run) -> None:
    arguments: dict[str, Any] = {f"n{n}": "x" * 1000 for n in range(5_000)}
    shown = render_call(arguments)
    assert len(shown.pairs) == 251
    assert shown.omitted_characters
    assert argument_sections(arguments)[-1].heading == "── argument 5000 of 5000: n4999"
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, tool_question(arguments=arguments))
        await driver.enter_question()
        await driver.pilot.press("end", "a")
        assert pending.answer is None


async def test_backslashes_and_windows_line_ends_hide_nothing(run: Run) -> None:
    async with run() as driver:
        assert (
            await ask_and_press(driver, tool_question(arguments={"path": "C:\\users", "text": "a\r\nb"}), "s")
            == AllowSession()
        )


async def test_no_browser_opens_before_the_end_of_the_address_was_on_the_screen(run: Run) -> None:
    url = f"https://example.com/pay?{'&'.join(f'part{n}=something' for n in range(120))}&to=evil"
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(
            driver, VisitUrl(server="bank", why="it asks", message="Pay. " * 400, url=url, host="example.com")
        )
        dialog = await driver.enter_question()
        await driver.pilot.press("o")
        await driver.until(lambda: "read to the end first" in driver.text(), "why not")
        assert pending.answer is None
        assert "o open the browser: not yet" in driver.text()
        shown = driver.text()
        while not dialog.is_read:
            await driver.pilot.press("pagedown")
            shown += driver.text()
        assert "to=evil" in shown
        await driver.pilot.press("o")
        await driver.until(lambda: pending.answer == AcceptUrl(), "the answer")


async def test_no_form_is_sent_with_defaults_that_were_never_on_the_screen(run: Run) -> None:
    fields = tuple(Field(name=f"n{n}", kind="boolean", default=n == 29) for n in range(30))
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, FillForm(server="quiz", why="it asks", message="Some things.", fields=fields))
        dialog = await driver.enter_question()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: "see every page of the form first" in driver.text(), "why not")
        assert pending.answer is None
        await driver.pilot.press("end")
        await driver.until(lambda: "n29" in driver.text(), "the last page")
        assert not dialog.is_read
        await driver.pilot.press("home", *["pagedown"] * 6)
        await driver.until(lambda: dialog.is_read, "the end")
        assert "n29" in driver.text()
        await driver.pilot.press("ctrl+s")
        await driver.until(lambda: isinstance(pending.answer, Accept), "the answer")
        assert pending.answer.content["n29"] is True


async def test_a_server_is_agreed_to_only_after_all_that_it_is_was_on_the_screen(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(
            driver, trust_question(command=("server", *(f"--folder=/srv/{n}" for n in range(40))))
        )
        dialog = await driver.enter_question()
        assert "s this session: not yet" in driver.text()
        assert "A always" not in driver.text()
        await driver.pilot.press("s", "A")
        await driver.pilot.click("#always")
        await driver.until(lambda: "read to the end first" in driver.text(), "why not")
        assert pending.answer is None
        assert dialog.query_one("#once").has_class("locked")
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.is_read, "the end")
        await driver.until(lambda: "s this session · A always" in driver.text(), "the keys that work now")
        await driver.pilot.press("s")
        await driver.until(lambda: pending.answer == TrustOnce(), "the answer")


@pytest.mark.parametrize("text", ["a line \n", "\u00a0", "plain ", "\ue000\n"])
def test_only_the_beginning_of_a_long_value_is_rendered_and_all_of_it_is_counted(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    rendered, mark = list[int](), call_view.mark_unusual_spaces

    def watched(part: str) -> str:
        rendered.append(len(part))
        return mark(part)

    monkeypatch.setattr(call_view, "mark_unusual_spaces", watched)
    value = text * (1_000_000 // len(text))
    view = render_call({"a": value})
    assert summarize_arguments({"a": value}, 200).startswith("a ")
    assert max(rendered) < 2 * MAX_VALUE_CHARACTERS
    assert len(view.pairs[0][1]) < 2 * MAX_VALUE_CHARACTERS
    assert view.omitted_characters >= len(value) - MAX_VALUE_CHARACTERS


def test_more_joiners_than_are_checked_count_as_hidden() -> None:
    assert not render_call({"a": "क्\u200dष" * 100}).readability.has_hidden_characters
    assert render_call({"a": "क्\u200dष" * 20_000}).readability.has_hidden_characters
    assert render_call({"a": ["क्\u200dष" * 100] * 200}).readability.has_hidden_characters


LONG_STATEMENTS = [("\u202e" * 60_000, 20_000), ("é\n" * 30_000, 500), ("\n" * 60_000, 500), ("word " * 12_000, 20_000)]


def sampling_of(text: str) -> ReviewSampling:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return ReviewSampling(
        server="quiz", why="it asks", messages=(message,) * 4, model="m", label="Some model", max_tokens=100
    )


def form_of(text: str) -> FillForm:
    return FillForm(server="quiz", why="it asks", message=text, fields=())


@pytest.mark.parametrize("make", [sampling_of, form_of])
@pytest.mark.parametrize(("text", "most"), LONG_STATEMENTS, ids=["marks", "short lines", "empty lines", "words"])
async def test_only_the_beginning_of_a_long_statement_is_laid_out_and_the_rest_is_read_on_its_page(
    run: Run, make: Any, text: str, most: int
) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, make(text))
        dialog = await driver.enter_question()
        shown = dialog.query_one(QuotedText)
        assert len(shown.plain) <= 20_400
        assert shown.plain.count("\n") <= 510
        assert len(shown.plain) >= most
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.is_read, "the end")
        dialog.action_send()
        assert f"{dialog.omitted_characters:,} characters are not shown here" in driver.text()
        assert pending.answer is None


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(("make", "answer"), [(sampling_of, ApproveUnchanged()), (form_of, Accept({}))])
async def test_a_long_statement_that_was_read_on_its_page_can_be_approved(run: Run, make: Any, answer: Any) -> None:
    async with run(size=(100, 40)) as driver:
        pending = PendingQuestion(driver, make("a line\n" * 600 + "the end"))
        dialog = await driver.enter_question()
        await driver.pilot.press("end", "v")
        await driver.until(lambda: driver.app.screen is not dialog and "a line" in driver.text(), "the page")
        await driver.pilot.press("G")
        await driver.until(lambda: dialog.is_fully_shown, "its end")
        assert "the end" in driver.text()
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog)
        await driver.pilot.press("end")
        await driver.until(lambda: dialog.is_read and not dialog.disabled_reason("send"), "the end")
        dialog.action_send()
        await driver.until(lambda: pending.answer == answer, "the answer")


async def test_a_short_statement_has_no_page_of_its_own(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, sampling_of("Capital of France?"))
        dialog = await driver.enter_question()
        await driver.pilot.press("v")
        assert driver.app.screen is dialog
        assert not dialog.reminder()


async def test_the_page_of_all_arguments_is_prepared_outside_of_the_event_loop(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def render(value: Any) -> str:
        threads.append(threading.current_thread())
        return str(value)

    monkeypatch.setattr(call_view, "render_value", render)
    async with run(size=(100, 40)) as driver:
        PendingQuestion(driver, tool_question(arguments={"text": "\xa0" * 50_000}))
        dialog = await driver.enter_question()
        await driver.pilot.press("v")
        await driver.until(lambda: driver.app.screen is not dialog, "the page")
        assert threads
        assert threading.current_thread() not in threads


async def test_the_reason_why_a_call_can_only_be_allowed_once_is_its_first_line(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments={**LONG_ARGUMENTS, "last": "a\u202eb"}))
        await driver.enter_question()
        assert "▲ Hidden or control characters are shown as marks." in driver.text()


async def test_the_change_of_a_server_is_the_first_thing_in_the_question_about_it(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        command = ("server", *(f"--folder=/srv/{n}" for n in range(40)))
        PendingQuestion(driver, trust_question(command=command, changed=("- args: a", "+ args: b")))
        await driver.enter_question()
        assert "Changed since you approved it" in driver.text()
        assert "args: b" in driver.text()


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        ((*(f"+ argument {n}: x" for n in range(5_000)), "+ argument z: last"), "4,601 more lines: v shows all"),
        ((*(f"+ argument {n}: {'x' * 3_000}" for n in range(50)), "+ argument z: last"), "45 more lines: v shows all"),
        (("+ argument 0: " + "x" * 9_000, "+ argument z: last"), ""),
    ],
    ids=["many lines", "long lines", "one long line"],
)
async def test_many_changes_of_a_server_are_approved_only_after_they_were_read_on_their_page(
    run: Run, changed: tuple[str, ...], more: str
) -> None:
    async with run(size=(80, 24)) as driver:
        pending = PendingQuestion(driver, trust_question(command=("server",), changed=changed))
        dialog = await driver.enter_question()
        shown = dialog.query(KeyValueList).first().plain
        assert len(shown) < 25_000
        assert more in shown
        assert "v view" in driver.text()
        await driver.pilot.press("end", "s")
        await driver.until(lambda: "read it with v, to the end" in driver.text(), "why not")
        assert pending.answer is None
        await driver.pilot.press("v", "end")
        await driver.until(lambda: "argument z: last" in driver.text() and dialog.reminder() == "", "the end of it")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is dialog, "the question")
        await driver.pilot.press("s")
        await driver.until(lambda: pending.answer == TrustOnce(), "the approval")
