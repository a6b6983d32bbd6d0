"""Tests for questions to the user: shown in full, refused by default, never answered by accident."""

from typing import Any

import anyio
import pytest

from mcphost.host.argument_origins import ArgumentOrigin
from mcphost.host.questions.questions import (
    AllowOnce,
    AllowSession,
    ApproveTool,
    ContinueTurn,
    Deny,
    DoNotTrust,
    TrustAlways,
    TrustOnce,
)
from mcphost.protocol.tools import ToolAnnotations
from mcphost.serialization import Raw, encode, replace
from mcphost.tui import input_guard
from mcphost.tui.frontend import create_dialog
from tests.screens.ask_question import PendingQuestion, ask_and_press, tool_question, trust_question
from tests.screens.conftest import GUARD_SECONDS, AppDriver, Run
from tests.screens.example_records import ORIGINS_CALL
from tests.screens.fake_host import FakeHost

pytestmark = pytest.mark.anyio


@pytest.mark.req("ui.confirm")
@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), Deny()),
        (("d",), Deny()),
        (("enter",), Deny()),
        (("a",), AllowOnce()),
        (("s",), AllowSession()),
        (("r", "n", "o", "enter"), Deny("no")),
        (("tab", "tab", "enter"), AllowOnce()),
        (("right", "right", "enter"), AllowOnce()),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else type(value).__name__,
)
async def test_each_key_of_the_consent_dialog_gives_its_answer(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run() as driver:
        assert await ask_and_press(driver, tool_question(), *keys) == answer


@pytest.mark.req("ui.confirm")
async def test_the_focus_starts_on_refusing(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(driver, tool_question())
        await driver.enter_question()
        assert driver.app.focused.id == "refuse"


@pytest.mark.req("ui.dialog-queue")
async def test_keys_typed_before_the_question_was_read_do_not_answer_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert GUARD_SECONDS == 0.3
    # typing the keys below takes longer than that here
    monkeypatch.setattr(input_guard, "GUARD_SECONDS", 60)
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        await driver.until(lambda: hasattr(driver.app.screen, "is_guarded"))
        assert driver.app.screen.is_guarded
        await driver.pilot.press("tab", "enter", "escape", "ctrl+s", "right")
        assert pending.answer is None
        assert len(driver.frontend.pending_questions) == 1
        monkeypatch.setattr(input_guard, "GUARD_SECONDS", 0)
        await driver.enter_question()
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == Deny())


async def test_clicking_outside_answers_nothing(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        await driver.enter_question()
        await driver.pilot.click(offset=(0, 0))
        assert pending.answer is None
        await driver.pilot.click("#once")
        await driver.until(lambda: pending.answer == AllowOnce())


@pytest.mark.req("tools.show-input")
async def test_all_arguments_are_shown_complete_with_hidden_characters_marked(run: Run) -> None:
    body = "\n".join(f"line {n}" for n in range(200))
    arguments = {"title": "a\u202eb\x1b[31m", "body": body, "deep": {"list": [1, {"x": "y" * 300}]}, "empty": ""}
    async with run(size=(80, 24)) as driver:
        PendingQuestion(driver, tool_question(arguments=arguments))
        dialog = await driver.enter_question()
        shown = dialog.query_one("#sent").plain
        assert "a‹U+202E›b␛[31m" in shown
        assert all(f"line {n}" in shown for n in range(200))
        assert "y" * 300 in shown
        assert "(empty text)" in shown
        assert "read to the end first" in driver.text()
        assert "Deny" in driver.text()
        await driver.pilot.press(*["pagedown"] * 40)
        await driver.until(lambda: "more line" not in driver.text(), "the end of the arguments")
        await driver.pilot.press("escape")


async def test_claims_of_the_server_are_labelled_as_claims(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(
            driver,
            tool_question(claims=ToolAnnotations(read_only_hint=True, title="Totally safe"), description="Does [/] it"),
        )
        await driver.enter_question()
        text = driver.text()
        assert "The server claims: only reads" in text
        assert "(a claim, not checked)" in text
        assert "first use in this session" in text
        assert "Does [/] it" in text
        assert "Run files · write_file?" in text
        assert "asked by the model, turn 3" in text
        await driver.pilot.press("escape")


def underlined_text(driver: AppDriver) -> str:
    """Return the text that is underlined on the screen, without the spaces between its lines."""
    strips = driver.app.screen._compositor.render_strips()
    marked = [segment.text for strip in strips for segment in strip if segment.style and segment.style.underline]
    return " ".join("".join(marked).split())


async def test_the_question_names_the_source_of_text_that_came_from_another_server_and_marks_it(run: Run) -> None:
    async with run(size=(80, 40)) as driver:
        PendingQuestion(driver, ORIGINS_CALL)
        await driver.enter_question()
        text = driver.text()
        assert "▲ body: 69 characters from mail · read_message" in text
        assert "▲ tags[1]: 27 characters from mail · read_message (encoded as base64" in text
        marked = underlined_text(driver)
        assert marked.startswith("We will close the Leipzig office in March")
        assert marked.endswith("yourselfREU4OSAzNzA0IDAwNDQgMDUzMiAwMTMwIDAw")
        assert "For the record" not in marked
        assert "Best regards" not in marked


async def test_the_mark_of_a_copied_text_goes_once_it_was_edited_away(run: Run) -> None:
    question = replace(
        ORIGINS_CALL,
        arguments={"name": "the Leipzig office", "to": "all of the customers"},
        schema=Raw(encode({"type": "object", "properties": {key: {"type": "string"} for key in ("name", "to")}})),
        origins=(
            ArgumentOrigin(argument="name", server="mail", source="read_message", characters=18, spans=((0, 18),)),
            ArgumentOrigin(argument="to", server="crm", source="list", characters=20, spans=((0, 20),)),
        ),
    )
    async with run(size=(80, 40)) as driver:
        driver.host.schema = question.schema
        PendingQuestion(driver, question)
        dialog = await driver.enter_question()
        assert "name: 18 characters from mail" in driver.text()
        await driver.pilot.press("e")
        await driver.until(lambda: driver.app.screen is not dialog, "the editor")
        await driver.pilot.press("end", *["backspace"] * 6, "ctrl+s")
        await driver.until(lambda: "edited by you: 1 changed" in driver.text(), "the edited call")
        assert "characters from mail" not in driver.text()
        assert "▲ to: 20 characters from crm · list" in driver.text()
        assert underlined_text(driver) == "all of the customers"


async def test_a_changed_tool_is_marked(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(driver, tool_question(first_use=False, has_changed=True))
        await driver.enter_question()
        assert "The server changed this tool" in driver.text()
        await driver.pilot.press("escape")


async def test_the_reuse_of_a_recorded_result_is_asked_in_these_words(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question(recorded_at=1_700_000_000.0, editable=False))
        await driver.enter_question()
        shown = driver.text()
        assert "Reuse the recorded result of files · write_file?" in shown
        assert "The tool will not be called" in shown
        assert "Run files" not in shown
        assert "Allow this session" not in shown
        assert "Always" not in shown
        await driver.pilot.press("s", "A", "a")
        await driver.until(lambda: pending.answer == AllowOnce(), "the answer")


async def test_names_that_look_like_markup_do_no_harm(run: Run) -> None:
    async with run() as driver:
        odd = "[@click=app.quit]x[/]"
        PendingQuestion(driver, ApproveTool(server="[/][b", why=odd, call="c", tool="[red]t[/", arguments={"[": "]"}))
        await driver.enter_question()
        assert "Run [/][b · [red]t[/?" in driver.text()
        await driver.pilot.press("escape")


async def test_escape_in_the_reason_goes_back_and_denies_only_then(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        await driver.enter_question()
        await driver.pilot.press("r", "x", "escape")
        assert pending.answer is None
        assert driver.app.focused.id == "refuse"
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == Deny())


@pytest.mark.req("ui.dialog-queue")
async def test_several_questions_are_shown_one_after_the_other_with_their_count(run: Run) -> None:
    async with run() as driver:
        pending = [PendingQuestion(driver, trust_question(url=f"https://{n}.example/mcp")) for n in range(3)]
        for number in range(3):
            dialog = await driver.enter_question()
            assert dialog.details.url == f"https://{number}.example/mcp"
            if number < 2:
                assert f"question {number + 1} of 3" in driver.text()
            await driver.pilot.press("s")
            await driver.until(lambda number=number: pending[number].answer == TrustOnce())
        await driver.until(lambda: driver.app.screen is driver.app.chat)


async def test_a_withdrawn_question_disappears_and_the_next_one_is_shown(run: Run) -> None:
    async with run() as driver:
        first = PendingQuestion(driver, tool_question(arguments={"n": 1}))
        await driver.enter_question()
        second = PendingQuestion(driver, tool_question(arguments={"n": 2}))
        await driver.until(lambda: len(driver.frontend.pending_questions) == 2)
        first.worker.cancel()
        await driver.until(
            lambda: driver.dialog is not None and driver.dialog.details.arguments == {"n": 2}, "the second question"
        )
        await driver.enter()
        await driver.pilot.press("d")
        await driver.until(lambda: second.answer == Deny())
        assert first.answer is None


async def test_under_a_question_no_other_page_opens(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        await driver.pilot.press("f1", "f3", "f4", "ctrl+p", "ctrl+n")
        assert driver.app.screen is dialog
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == Deny())


async def test_late_drawing_of_a_closed_question_is_harmless(run: Run) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        dialog.fit()  # it schedules more work for the next refresh, when the question is being removed
        await driver.pilot.press("escape")
        await driver.until(lambda: pending.answer == Deny() and not dialog.query("#more"), "its end")
        dialog.fit()
        dialog.update_remaining()
        dialog.update_key_hint_opacity()
        await driver.pilot.pause()


@pytest.mark.parametrize("keys", [("ctrl+q",), ("ctrl+c", "ctrl+c")])
async def test_quitting_with_a_question_open_refuses_it_and_ends(
    run: Run, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "mcphost.tui.app.DOUBLE_PRESS_SECONDS", 60
    )  # a busy machine may take longer between two presses
    answers: list[Any] = []

    async def host_task(frontend: Any) -> None:
        answers.append(await frontend.ask(tool_question()))

    async with anyio.create_task_group() as group, run() as driver:
        group.start_soon(host_task, driver.frontend)
        await driver.until(lambda: hasattr(driver.app.screen, "is_guarded"))
        await driver.pilot.press(*keys)
        await driver.until(lambda: not driver.app.is_running, "the end")
        assert answers == [Deny()]
        assert await driver.frontend.ask(tool_question()) == Deny()


@pytest.mark.req("ui.dialog-queue")
async def test_a_question_during_the_opening_of_another_is_counted_and_breaks_neither(run: Run) -> None:
    async with run() as driver:
        first = create_dialog(trust_question())
        driver.app.push_screen(first)
        first.show_queue_position(1, 2)  # opened, and not drawn yet
        await driver.until(lambda: "question 1 of 2" in driver.text(), "the count")


@pytest.mark.req("sec.local.show-command", "sec.local.warn")
@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (("escape",), DoNotTrust()),
        (("enter",), DoNotTrust()),
        (("s",), TrustOnce()),
        (("A",), TrustAlways()),
    ],
)
async def test_trusting_a_server_is_asked_with_the_exact_command(run: Run, keys: tuple[str, ...], answer: Any) -> None:
    async with run(size=(120, 50)) as driver:
        pending = PendingQuestion(
            driver,
            trust_question(
                command=("npx", "-y", "a server", "--flag=" + "x" * 300),
                environment={"TOKEN": "[hidden]", "EMPTY": "", "LIB": "a\nb"},
                cwd="/srv",
                file="/home/me/mcp.json",
            ),
        )
        await driver.enter_question()
        text = driver.text()
        flat = "".join(line.strip(" │\n") for line in text.splitlines())
        words = [line.strip(" ▸●◌✕│\n") for line in text.splitlines()]
        at = next(number for number, line in enumerate(words) if line.startswith("command") and line.endswith("npx"))
        assert "It starts this program on your machine, with your user privileges" in flat
        assert "F3: d disables it, x removes it." in " ".join(text.split())
        assert words[at + 1 : at + 3] == ["-y", "'a server'"]
        assert flat.count("x") >= 300
        for part in ("TOKEN  [hidden]", 'EMPTY  ""', "LIB    a⏎b", "/srv", "/home/me/mcp.json", "Do not use"):
            assert part in text
        assert driver.app.focused.id == "refuse"
        await driver.pilot.press(*keys)
        await driver.until(lambda: pending.answer == answer)


async def test_each_row_that_continues_an_argument_of_a_server_is_marked(run: Run) -> None:
    async with run(size=(80, 30)) as driver:
        PendingQuestion(driver, trust_question(command=("node", "run.js", "--note=" + "a " * 60 + "--yes", "--yes")))
        await driver.enter_question()
        rows = [line.strip(" ▸●◌✕│\n") for line in driver.text().splitlines()]
        at = next(number for number, line in enumerate(rows) if line.startswith("'--note="))
        end = rows.index("--yes")
        assert end - at > 1
        assert all(row.startswith("┆ ") for row in rows[at + 1 : end])


@pytest.mark.req("sec.local.patterns")
async def test_dangerous_parts_of_a_command_are_marked_below_it(run: Run) -> None:
    async with run(size=(80, 24)) as driver:
        PendingQuestion(
            driver, trust_question(command=("sudo", "server"), warnings=("It asks for administrator rights (sudo).",))
        )
        await driver.enter_question()
        assert "▲ It asks for administrator rights (sudo)." in driver.text()


async def test_a_changed_server_shows_its_previous_approval(run: Run) -> None:
    async with run() as driver:
        changed = ("- address: https://old.example/mcp", "+ address: https://new.example/mcp")
        PendingQuestion(driver, trust_question(url="https://new.example/mcp", changed=changed, trusts_claims=True))
        await driver.enter_question()
        assert "Changed since you approved it" in driver.text()
        assert "- address: https://old.example/mcp" in driver.text()
        assert "+ address: https://new.example/mcp" in driver.text()
        assert "trustAnnotations" in driver.text()
        await driver.pilot.press("escape")


async def test_going_on_after_many_rounds_is_refused_by_escape_and_allowed_by_its_key(run: Run) -> None:
    async with run() as driver:
        question = ContinueTurn(server="", why="", rounds=25)
        assert await ask_and_press(driver, question, "escape") is False
        assert await ask_and_press(driver, question, "g") is True


async def test_a_declined_call_is_marked_on_its_card(run: Run) -> None:
    async with run() as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.enter_question()
        await driver.pilot.press("r", "n", "o", "enter")
        await driver.until(lambda: "declined" in driver.transcript() and "You declined" in driver.transcript())


async def test_a_stopped_turn_withdraws_its_question(run: Run) -> None:
    async with run() as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.enter_question()
        host: FakeHost = driver.host
        host.conversation.stop()
        await driver.until(
            lambda: driver.app.screen is driver.app.chat and not driver.frontend.pending_questions, "the chat"
        )
        assert "stopped" in driver.transcript()


async def test_a_question_that_opens_removes_the_notices_that_would_cover_its_keys(run: Run) -> None:
    async with run() as driver:
        driver.app.notify("Added exiter", markup=False)
        await driver.until(lambda: len(driver.app._notifications) == 1, "the notice")
        PendingQuestion(driver, tool_question())
        await driver.enter_question()
        assert len(driver.app._notifications) == 0


async def test_notices_wait_while_a_question_is_open_and_are_shown_after_it(run: Run) -> None:
    async with run() as driver:
        driver.app.notify("The disk is full", severity="error", markup=False)
        await driver.until(lambda: driver.has_notified("The disk is full"), "the error")
        pending = PendingQuestion(driver, tool_question())
        await driver.enter_question()
        focused = driver.app.focused
        for number in [*range(14), 13]:
            driver.app.notify(f"Notice {number}.", markup=False)
        await driver.pilot.pause()
        assert not list(driver.app._notifications)
        assert (pending.answer, driver.app.focused) == (None, focused)
        driver.app.dismiss_notices({"Notice 12."})
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.has_notified("Notice 13."), "the notices")
        assert [one.message for one in driver.app._notifications] == [
            "The disk is full",
            *(f"Notice {number}." for number in (5, 6, 7, 8, 9, 10, 11, 13)),
        ]


async def test_a_notice_that_a_key_caused_is_shown_over_a_question(run: Run) -> None:
    async with run() as driver:
        PendingQuestion(driver, tool_question())
        await driver.enter_question()
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: driver.has_notified("Press Ctrl+C again to quit."), "the hint")


async def test_a_key_right_after_the_program_is_continued_answers_no_question(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run() as driver:
        pending = PendingQuestion(driver, tool_question())
        dialog = await driver.enter_question()
        now = input_guard.clock() + 1_000
        monkeypatch.setattr(input_guard, "clock", lambda: now)
        assert not dialog.guard.is_new()
        driver.app.restart_guards()
        await driver.pilot.press("a")
        assert pending.answer is None
        monkeypatch.setattr(input_guard, "clock", lambda: now + 1_000)
        await driver.pilot.press("a")
        await driver.until(lambda: pending.answer is not None, "an answer")
        assert pending.answer == AllowOnce()
