"""Tests for the chat: typing, display and storage."""

import asyncio
from typing import Any

import pytest
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.events import Key
from textual.geometry import Region
from textual.widget import Widget

from mcphost.config.schema import UnreadFile
from mcphost.errors import UsageError
from mcphost.host import events
from mcphost.llm.messages import Message, TextPart, Usage
from mcphost.serialization import replace
from mcphost.tui.chat.status import has_unread_servers
from mcphost.tui.screens.text_viewer import TextViewerScreen
from mcphost.tui.screens.theme_picker import ThemePicker
from mcphost.tui.themes import ThemeOptions
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widgets.completion_popup import CompletionItem
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.server_list import ServerList
from mcphost.tui.widgets.status_bars import TopBar
from tests.screens.conftest import Run
from tests.screens.fake_host import FakeConversation, FakeHost, echo_reply

pytestmark = pytest.mark.anyio


async def test_a_message_is_sent_and_its_answer_is_shown_while_it_arrives(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type("hello you")
        await driver.pilot.press("enter")
        await driver.until(lambda: "You said: hello you" in driver.transcript())
        assert driver.host.sent[0][0] == "hello you"
        assert driver.app.query_one(Composer).composer_input.text == ""
        assert "hello you" in driver.text()


async def test_shift_enter_and_ctrl_j_make_new_lines(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.pilot.press("a", "shift+enter", "b", "ctrl+j", "c", "enter")
        await driver.until(lambda: driver.host.sent)
        assert driver.host.sent[0][0] == "a\nb\nc"


async def test_a_tool_call_is_asked_for_run_and_shown_with_its_result(run: Run) -> None:
    async with run() as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.enter_question()
        assert "waiting for you" in driver.transcript()
        await driver.pilot.press("a")
        await driver.until(lambda: "There are 14." in driver.transcript())
        shown = driver.transcript()
        assert "files · search_files" in shown
        assert "pattern TODO" in shown
        assert "14 matches" in shown
        assert "done · 100 ms" in shown


async def test_the_arrow_keys_bring_back_earlier_messages_and_the_draft(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        for text in ("one", "two"):
            await driver.type(text)
            await driver.pilot.press("enter")
            await driver.until(
                lambda text=text: f"You said: {text}" in driver.transcript() and not driver.host.conversation.is_busy
            )
        await driver.type("draft")
        prompt = driver.app.query_one(Composer).composer_input
        recorded = []
        for key in ("up", "up", "down", "down"):
            await driver.pilot.press(key)
            recorded.append(prompt.text)
        assert recorded == ["two", "one", "two", "draft"]


async def test_text_is_kept_when_it_cannot_be_sent(run: Run) -> None:
    class RefusingConversation(FakeConversation):
        async def send(self, text: str, attachments: Any = ()) -> Any:
            raise UsageError("The model is not ready.", "Wait a moment.")

    async with run(turn=echo_reply) as driver:
        driver.host.conversation.__class__ = RefusingConversation
        await driver.type("keep me")
        await driver.pilot.press("enter")
        await driver.until(lambda: "The model is not ready." in driver.transcript())
        assert driver.app.query_one(Composer).composer_input.text == "keep me"


async def test_escape_stops_the_turn(run: Run) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "working")
        await asyncio.Event().wait()
        return ""

    async with run(turn=forever) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "working" in driver.transcript())
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.host.conversation.is_busy)


async def test_escape_in_the_conversation_goes_back_to_the_message_and_stops_the_turn_only_from_there(run: Run) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with run(turn=forever) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.conversation.is_busy)
        await driver.pilot.press("ctrl+t")
        await driver.until(lambda: "esc back to the message" in driver.text())
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.chat.composer_input.has_focus)
        assert driver.host.conversation.is_busy
        await driver.pilot.press("escape")
        await driver.until(lambda: not driver.host.conversation.is_busy)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_stop_key_is_shown_only_while_an_answer_is_running(run: Run, size: tuple[int, int]) -> None:
    async def forever(host: FakeHost, turn: int, text: str) -> str:
        await asyncio.Event().wait()
        return ""

    async with run(size=size, turn=forever) as driver:
        assert "esc stop" not in driver.text()
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "esc stop" in driver.text())
        await driver.pilot.press("escape")
        await driver.until(lambda: "esc stop" not in driver.text())


async def test_typing_continues_while_an_answer_streams_and_the_next_message_waits(run: Run) -> None:
    release = asyncio.Event()

    async def slow(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "part one")
        await release.wait()
        return "done"

    async with run(turn=slow) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "part one" in driver.transcript())
        await driver.type("next")
        await driver.pilot.press("enter")
        await driver.until(lambda: "» next" in driver.text())
        assert driver.app.query_one(Composer).composer_input.text == ""
        assert len(driver.host.sent) == 1
        release.set()
        await driver.until(lambda: len(driver.host.sent) == 2 and not driver.host.conversation.is_busy)


async def test_without_a_model_the_screen_shows_how_to_choose_one_and_keeps_the_text(run: Run) -> None:
    async with run(no_model=True) as driver:
        assert "Choose a model to start chatting. /setup searches" in driver.transcript()
        assert "Ctrl+B lists all models" in driver.transcript()
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.pilot.pause()
        assert driver.app.query_one(Composer).composer_input.text == "hello"
        assert driver.host.sent == []


async def test_a_tool_is_called_manually_without_a_model_or_a_question(run: Run) -> None:
    async with run(no_model=True) as driver:
        await driver.type("!files/search_files pattern=x n=2")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.called)
        assert driver.host.called == [("files", "search_files", {"pattern": "x", "n": 2})]
        await driver.until(lambda: "search_files gave" in driver.transcript())
        assert driver.app.query_one(Composer).composer_input.text == ""


async def test_enter_sends_a_completely_typed_tool_name(run: Run) -> None:
    async with run(no_model=True) as driver:
        await driver.type("!files/search_files")
        await driver.until(lambda: driver.app.query("OptionList"), "the popup")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.called, "the call")
        assert driver.host.called[0][:2] == ("files", "search_files")


@pytest.mark.parametrize(
    ("before", "typed"), [("!evil/f", "orm"), ("!evil/", "form"), ("/h", "istory"), ("!e", "vil/form n=1")]
)
async def test_enter_never_replaces_typed_text_with_a_shorter_suggestion(run: Run, before: str, typed: str) -> None:
    names = ("!evil/fine", "!evil/form", "/help", "/history")
    async with run(no_model=True) as driver:
        composer = driver.app.query_one(Composer)
        composer.popup.source = lambda kind: [
            CompletionItem("text", name, "", name, "") for name in names if name[0] == kind
        ]
        await driver.type(before)
        await driver.until(lambda: driver.app.query("OptionList"), "suggestions for the beginning")
        sent: list[str] = []
        composer.submit = lambda: sent.append(composer.composer_input.text)
        # Pressed together, as on a busy screen: the text is not handled yet when Enter arrives.
        composer.composer_input.insert(typed)
        await composer.composer_input._on_key(Key("enter", "\r"))
        assert sent == [before + typed]


async def test_a_letter_in_the_transcript_goes_to_the_composer_unless_it_is_a_key_of_its_own(run: Run) -> None:
    async with run() as driver:
        prompt = driver.app.query_one(Composer).composer_input
        await driver.pilot.press("ctrl+t", "left_square_bracket", "space")
        assert prompt.text == ""
        assert driver.app.query_one("#transcript").has_focus
        await driver.pilot.press("h", "c", "é", "2")
        assert prompt.text == "hcé2"
        assert prompt.has_focus


async def test_an_unreadable_manual_call_stays_with_an_error_about_its_syntax(run: Run) -> None:
    async with run() as driver:
        await driver.type("!files x")
        await driver.pilot.press("enter")
        await driver.until(lambda: "!server/tool key=value" in driver.transcript())
        assert driver.app.query_one(Composer).composer_input.text == "!files x"


async def test_an_exclamation_mark_offers_the_tools(run: Run) -> None:
    async with run() as driver:
        await driver.type("!files/cre")
        await driver.pilot.press("enter")
        assert driver.app.query_one(Composer).composer_input.text == "!files/create_issue "


async def test_a_slash_opens_the_commands_and_enter_runs_the_chosen_one(run: Run) -> None:
    async with run() as driver:
        await driver.type("/hel")
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "HelpScreen")
        await driver.pilot.press("pagedown", "pagedown")
        await driver.until(lambda: "commands and the servers' prompts" in driver.text(), "the keys of the message")


async def test_a_mistyped_command_is_not_sent_to_the_model(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type("/hlep")
        await driver.pilot.press("enter")
        await driver.pilot.pause()
        assert driver.host.sent == []
        assert driver.app.query_one(Composer).composer_input.text == "/hlep"


async def test_the_demo_always_states_that_it_is_no_ai(run: Run) -> None:
    async with run(demo=True, size=(80, 24)) as driver:
        await driver.until(lambda: "demo (not an AI)" in driver.text(), "what it is")
        driver.draws_behind = True
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.enter_question()
        assert "demo (not an AI)" in driver.text()
        await driver.pilot.press("escape")


async def test_a_failed_server_and_its_next_step_are_shown(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.ServerState("slack", "failed", "It ended with exit status 1.", "See its log with F3."))
        await driver.until(lambda: "slack: It ended with exit status 1." in driver.transcript())
        assert "Press r on the servers page (F3) to restart it. See its log with F3." in driver.transcript()


@pytest.mark.parametrize("states", [("ready",), ("waiting", "connecting", "ready")])
async def test_a_server_that_became_ready_after_a_fault_is_reported_once(
    run: Run, states: tuple[events.ServerStateName, ...]
) -> None:
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ServerState("files", "ready"))
        driver.host.put(events.ServerState("slack", "failed", "It cannot be reached."))
        for state in (*states, "ready"):
            driver.host.put(events.ServerState("slack", state))
        await driver.until(lambda: "ℹ slack is ready now." in driver.text())
        assert driver.text().count("is ready now") == 1


async def test_a_sign_out_that_the_user_asked_for_is_not_shown_as_an_error(run: Run) -> None:
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ServerState("slack", "sign_in", "You signed out.", by_user=True))
        await driver.until(lambda: "ℹ slack: You signed out. Press s on the servers page (F3)" in driver.text())


async def test_a_crash_notice_says_that_the_server_is_started_again_and_at_last_how_to_restart_it(run: Run) -> None:
    again, exited = "mcphost starts it again in 16 s (attempt 5 of 5).", "It exited with status 3."
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ServerState("slack", "failed", exited, again, retry_seconds=16))
        await driver.until(lambda: again in driver.transcript())
        assert "to restart it" not in driver.transcript()
        driver.host.put(events.ServerState("slack", "failed", f"{exited} mcphost gave up after 5 attempts."))
        await driver.until(lambda: "mcphost gave up after 5 attempts." in driver.transcript())
        assert "Press r on the servers page (F3) to restart it." in driver.transcript()


async def test_the_cause_of_a_crash_is_on_the_card_of_the_call_and_the_notice_below_names_the_call(run: Run) -> None:
    again, cause = "mcphost starts it again in 1 s (attempt 1 of 5).", "The server 'slack' exited with status 3."
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ToolProposed("c", "slack", "post", {}))
        driver.host.put(events.ToolFinished("c", "slack", "post", "failed", f"{cause} The tool may have run."))
        driver.host.put(events.ServerState("slack", "failed", cause, again, retry_seconds=1))
        await driver.until(lambda: again in driver.transcript())
        assert driver.transcript().count("exited with status 3") == 1
        assert "slack failed during the call of post above, which says why." in driver.transcript()


@pytest.mark.parametrize("states", [("ready",), ("waiting",), ("failed", "ready")])
async def test_a_call_that_failed_before_the_server_was_ready_does_not_explain_a_later_crash(
    run: Run, states: tuple[events.ServerStateName, ...]
) -> None:
    cause = "The server 'slack' exited with status 3."
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ToolProposed("c", "slack", "post", {}))
        driver.host.put(events.ToolFinished("c", "slack", "post", "failed", cause))
        driver.host.put(events.ServerState("slack", "failed", cause, "First."))
        for state in states:
            driver.host.put(events.ServerState("slack", state, cause if state == "failed" else ""))
        driver.host.put(events.ServerState("slack", "failed", cause, "Second."))
        await driver.until(lambda: "Second." in driver.transcript())
        assert driver.transcript().count("slack failed during the call of post above") == 1
        assert driver.transcript().count(cause) == 2


async def test_the_notice_about_a_sign_in_does_not_claim_that_the_server_failed(run: Run) -> None:
    cause = "slack requires a sign-in."
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ToolProposed("c", "slack", "post", {}))
        driver.host.put(events.ToolFinished("c", "slack", "post", "failed", cause))
        driver.host.put(events.ServerState("slack", "sign_in", cause))
        await driver.until(lambda: "Press s on the servers page" in driver.transcript())
        assert driver.transcript().count(cause) == 2


async def test_the_cause_of_a_crash_is_in_the_notice_if_the_card_of_the_call_is_far_above(run: Run) -> None:
    cause = "The server 'slack' exited with status 3."
    async with run(size=(140, 40)) as driver:
        driver.host.put(events.ToolProposed("c", "slack", "post", {}))
        driver.host.put(events.ToolFinished("c", "slack", "post", "failed", cause))
        for number in range(20):
            driver.host.put(events.NoticeEvent("info", f"notice {number}", ""))
        driver.host.put(events.ServerState("slack", "failed", cause))
        await driver.until(lambda: "Press r on the servers page" in driver.transcript())
        assert driver.transcript().count("exited with status 3") == 2


async def test_a_failed_turn_shows_the_cause_and_the_fix(run: Run) -> None:
    async with run() as driver:
        driver.host.put(events.TurnFinished(1, "failed", error="The key was refused.", hint="Set OPENAI_API_KEY."))
        await driver.until(lambda: "Set OPENAI_API_KEY." in driver.transcript())


async def test_hostile_text_from_a_server_never_reaches_the_screen_as_it_is(run: Run) -> None:
    nasty = "\x1b]52;c;aGk=\x07\u202e[/][bold]x\x9b31m"

    async def turn(host: FakeHost, number: int, text: str) -> str:
        host.say(number, nasty)
        host.put(events.ThinkingDeltaEvent(number, nasty))
        host.put(events.ToolProposed("c", nasty, nasty, {nasty: nasty, "other": [nasty]}))
        host.put(events.ToolStarted("c", nasty, nasty, {nasty: nasty, "other": [nasty]}, "once"))
        host.put(events.ToolProgress("c", nasty, 1, 2, nasty))
        host.put(events.NoticeEvent("warning", nasty, nasty))
        host.put(events.ServerState(nasty, "failed", nasty, nasty))
        return "end"

    async with run(turn=turn, size=(120, 40)) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: not driver.host.conversation.is_busy and driver.host.sent)
        await driver.pilot.pause()
        shown = driver.text() + driver.transcript()
        assert "␛" in shown
        assert "[/][bold]x" in shown
        assert not set(shown) & set("\x1b\x07\u202e\x9b")


async def test_a_big_result_is_folded_and_enter_opens_all_of_it(run: Run) -> None:
    async def turn(host: FakeHost, number: int, text: str) -> str:
        arguments = {"path": "x"}
        host.put(events.ToolProposed("c", "files", "read", arguments))
        host.put(events.ToolStarted("c", "files", "read", arguments, "once"))
        host.put(events.ToolFinished("c", "files", "read", "ok", "\n".join(f"line {n}" for n in range(50_000)), 0.1))
        return "ok"

    async with run(turn=turn) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "49,994 more lines" in driver.transcript())
        assert "line 6\n" not in driver.transcript()
        await driver.pilot.press("ctrl+t", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, TextViewerScreen))
        await driver.pilot.press("end")
        await driver.until(lambda: "line 49999" in driver.text())
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.screen is driver.app.chat)


async def test_opening_an_earlier_conversation_shows_it(run: Run) -> None:
    from mcphost.llm.messages import Message, TextPart
    from mcphost.store.conversations import ConversationInfo, ConversationStore

    async with run() as driver:
        driver.host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        message = Message(role="user", parts=(TextPart("hello"),), at=1.7e9)
        store = ConversationStore(driver.host.database)
        await store.append("c9", message, title="About files", model="scripted/one")
        await driver.pilot.press("f6")
        await driver.until(lambda: "About files" in driver.text())
        await driver.pilot.press("enter")
        await driver.until(lambda: "What was said before" in driver.transcript())
        assert "14 matches" in driver.transcript()
        assert "files · search_files" in driver.transcript()


async def test_a_new_conversation_starts_empty(run: Run) -> None:
    async with run(turn=echo_reply) as driver:
        await driver.type("hello")
        await driver.pilot.press("enter")
        await driver.until(lambda: "You said: hello" in driver.transcript() and not driver.host.conversation.is_busy)
        await driver.pilot.press("ctrl+n")
        await driver.until(lambda: driver.transcript() == "")


@pytest.mark.parametrize(("width", "shown"), [(80, False), (99, False), (100, True), (160, True)])
async def test_the_sidebar_is_shown_where_it_fits_and_f2_toggles_it(run: Run, width: int, shown: bool) -> None:
    async with run(size=(width, 30)) as driver:
        sidebar = driver.app.query_one(ServerList)
        assert sidebar.display is shown
        await driver.pilot.press("f2")
        assert sidebar.display is not shown


async def test_the_sidebar_says_why_it_has_no_servers(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        assert "Reading…" in str(ServerList().render())
        sidebar = driver.app.query_one(ServerList)
        sidebar.show(())
        await driver.until(lambda: "None yet." in str(sidebar.render()), "the hint")
        problem = UnreadFile("mcp.json: not valid JSON")
        driver.host.config = replace(driver.host.config, problems=(problem,))
        sidebar.show((), is_unreadable=has_unread_servers(driver.host))
        await driver.until(lambda: "mcp.json cannot be" in driver.text(), "the reason")


async def never_reply(host: FakeHost, turn: int, text: str) -> str:
    await asyncio.Event().wait()
    return text


async def test_ctrl_c_during_an_answer_says_how_to_stop_it(run: Run) -> None:
    async with run(turn=never_reply) as driver:
        await driver.type("hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.conversation.is_busy, "the answer")
        await driver.pilot.press("ctrl+c")
        await driver.until(lambda: driver.has_notified("Esc stops the answer. Press Ctrl+C again to quit."), "the hint")


async def test_everything_important_fits_80_by_24(run: Run) -> None:
    async with run(size=(80, 24), turn=echo_reply) as driver:
        await driver.type("hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: "You said: hi" in driver.text())
        text = driver.text()
        assert "claude-sonnet" in text
        assert "ctrl+q quit" in text
        assert "F1 help" in text
        assert "2/4 servers" in text


async def test_resizing_keeps_the_conversation_and_its_end_in_view(run: Run) -> None:
    async def long(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "\n\n".join(f"Paragraph {n} " + "word " * 60 for n in range(40)) + "\n\nThe very end.", 400)
        return "x"

    async with run(turn=long, size=(120, 40)) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "The very end." in driver.text())
        for size in ((60, 20), (160, 50), (80, 24)):
            await driver.pilot.resize_terminal(*size)
            await driver.until(lambda: "The very end." in driver.text(), f"the end at {size}")


async def test_a_slower_reader_is_not_pulled_down_by_new_text(run: Run) -> None:
    async def long(host: FakeHost, turn: int, text: str) -> str:
        host.say(turn, "\n\n".join(f"Paragraph {n}" for n in range(100)), 400)
        return "x"

    async with run(turn=long) as driver:
        await driver.type("go")
        await driver.pilot.press("enter")
        await driver.until(lambda: "Paragraph 99" in driver.text() and not driver.host.conversation.is_busy)
        await driver.pilot.press("ctrl+t", "pageup", "pageup")
        await driver.until(lambda: "Paragraph 99" not in driver.text())
        before = driver.text()
        driver.host.put(events.NoticeEvent("info", "Something new."))
        await driver.until(lambda: "Something new." in driver.transcript())
        await driver.pilot.pause()
        assert "Something new." not in driver.text()
        assert before.splitlines()[3:15] == driver.text().splitlines()[3:15]
        await driver.pilot.press("end")
        await driver.until(lambda: "Something new." in driver.text())


async def test_the_top_line_counts_tokens_cost_and_servers(run: Run) -> None:
    async with run(turn=echo_reply, size=(120, 30)) as driver:
        await driver.type("hi")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(TopBar).status.tokens == 1280)
        assert "1.3k tokens" in driver.text()
        assert "$0.01" in driver.text()
        assert "2/4 servers" in driver.text()
        assert "cache saved" not in driver.text()


async def test_the_top_line_shows_what_the_cache_saved_if_that_is_at_least_a_cent(run: Run) -> None:
    async with run(size=(120, 30)) as driver:
        answer = Message(role="assistant", parts=(TextPart("Yes."),))
        for saved in (0.004, 0.246):
            assert "cache saved" not in driver.text()
            usage = Usage(input_tokens=9000, cached_tokens=8000, cost=0.05, saved=saved)
            driver.host.put(events.MessageFinished(1, answer, usage))
            driver.host.put(events.TurnFinished(1, "done", usage))
            await driver.until(lambda: "k tokens" in driver.text(), "the tokens")
        await driver.until(lambda: "cache saved $0.25" in driver.text(), "what was saved")


async def test_the_palette_finds_an_action(run: Run) -> None:
    async with run() as driver:
        await driver.pilot.press("ctrl+p")
        await driver.pilot.pause(0.3)
        await driver.type("help")
        await driver.pilot.pause(0.3)
        await driver.pilot.press("enter")
        await driver.until(lambda: type(driver.app.screen).__name__ == "HelpScreen", "help")


@pytest.mark.parametrize("theme", ["dark", "ember"])
async def test_style_sheets_are_parsed_only_once_for_the_first_frame(
    run: Run, monkeypatch: pytest.MonkeyPatch, theme: str
) -> None:
    parsed_again: list[Stylesheet] = []
    monkeypatch.setattr(Stylesheet, "reparse", parsed_again.append)
    async with run(theme=ThemeOptions(configured=theme)) as driver:
        assert driver.app.theme == theme
        assert driver.app.chat.styles.background == Color.parse(driver.app.current_theme.background)
        assert not parsed_again


async def test_a_theme_is_shown_under_the_cursor_and_kept_only_when_chosen(run: Run) -> None:
    async with run() as driver:
        assert driver.app.theme == "dark"
        await driver.pilot.press("ctrl+l")
        await driver.until(lambda: isinstance(driver.app.screen, ThemePicker), "the list of themes")
        await driver.pilot.press("end")
        await driver.until(lambda: driver.app.theme == "tide-light", "the last theme")
        await driver.pilot.press("escape")
        await driver.until(lambda: driver.app.theme == "dark", "the theme before")
        await driver.pilot.press("ctrl+l")
        await driver.until(lambda: isinstance(driver.app.screen, ThemePicker), "the list of themes")
        await driver.pilot.press("end", "enter")
        await driver.until(lambda: driver.app.screen is driver.app.chat, "the chat")
        assert driver.app.theme == driver.app.theme_choice.wanted == "tide-light"


async def test_a_retried_server_reports_its_fault_once_until_it_works_or_is_restarted(run: Run) -> None:
    async with run(size=(100, 40)) as driver:
        for state in ("failed", "connecting", "failed", "connecting", "failed"):
            driver.host.put(events.ServerState("slack", state, "It cannot be reached.", "Start it."))
        await driver.until(lambda: "It cannot be reached" in driver.text())
        assert driver.text().count("slack: It cannot be reached.") == 1
        for state in ("ready", "failed", "waiting", "failed"):
            driver.host.put(events.ServerState("slack", state, "It cannot be reached.", "Start it."))
        await driver.until(lambda: driver.text().count("slack: It cannot be reached.") == 3)


@pytest.mark.parametrize("text", ["/hitsory of yesterday", "/hitsory"])
async def test_a_mistyped_command_stays_with_its_text_and_is_sent_after_a_space_is_put_before_it(
    run: Run, text: str
) -> None:
    async with run() as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text(text, "typed")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: any("mean /history?" in notification.message for notification in driver.app._notifications),
            "the notice",
        )
        assert composer.composer_input.text == text
        assert driver.host.sent == []
        await driver.pilot.press("home", "space", "enter")
        await driver.until(lambda: driver.host.sent, "the message")
        assert [sent.strip() for sent, _ in driver.host.sent] == [text]


async def test_a_command_with_trailing_words_is_not_run_and_loses_no_word(run: Run) -> None:
    async with run() as driver:
        composer = driver.app.chat.query_one(Composer)
        composer.set_text("/new ideas for a song", "typed")
        await driver.pilot.press("enter")
        await driver.until(
            lambda: any(
                "/new takes no arguments" in notification.message for notification in driver.app._notifications
            ),
            "the notice",
        )
        assert composer.composer_input.text == "/new ideas for a song"
        assert driver.host.sent == []


async def test_a_message_that_begins_with_a_path_is_sent(run: Run) -> None:
    async with run() as driver:
        driver.app.chat.query_one(Composer).set_text("/etc/passwd is what?")
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.host.sent == [("/etc/passwd is what?", ())], "the message")


async def test_a_container_that_its_widgets_cover_has_one_strip_for_all_its_lines(run: Run) -> None:
    """Each strip in Textual has seven caches, so separate blank lines would need 300 strips per screen."""
    async with run() as driver:
        for container in (driver.app.chat, driver.app.query_one("#middle")):
            size = container.size
            lines = container.render_lines(Region(0, 0, size.width, size.height))
            assert len(lines) == size.height > 1
            assert len({id(line) for line in lines}) == 1


async def test_the_rows_below_the_last_text_are_one_strip(run: Run) -> None:
    async with run(turn=echo_reply, size=(120, 40)) as driver:
        await driver.type("hello you")
        await driver.pilot.press("enter")
        await driver.until(lambda: "You said: hello you" in driver.transcript())
        servers = driver.app.query_one(ServerList)
        for widget, rows in ((driver.app.query_one(Transcript), ()), (servers, servers.rows), (servers, ())):
            servers.show(rows)
            size = widget.size
            lines = widget.render_lines(Region(0, 0, size.width, size.height))
            alone = Widget.render_lines(widget, Region(0, 0, size.width, size.height))
            assert [line.text for line in lines] == [line.text for line in alone]
            assert len({id(line) for line in lines[-10:]}) == 1
            below = widget.render_lines(Region(0, size.height - 3, size.width, 3))
            assert [line.text for line in below] == [line.text for line in alone[-3:]]
