"""A long session with the real program in a terminal: forty steps by keyboard."""

from pathlib import Path

import pytest

from tests.terminal.chat_session import ChatSession, open_session
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.scripted_model import MODEL, OTHER_MODEL, ScriptedModel
from tests.terminal.terminal import Terminal


def begin(session: ChatSession) -> None:
    """Open a chat, and get a first answer to a message with an attachment."""
    terminal = session.terminal
    session.step("start: the model and the server of this machine are proposed")
    terminal.run(*with_forked_worker())
    terminal.wait_for("Set up mcphost", f"ollama_chat/{MODEL}", "demo")
    session.step("take both with two keys")
    terminal.press("C-a")
    terminal.wait_for("■ demo")
    terminal.press("Enter")
    terminal.wait_for(f"Using ollama_chat/{MODEL}", "1/1 server")
    session.step("attach a file")
    terminal.type("Sum up @notes.t")
    terminal.wait_for("notes.txt")
    terminal.press("Tab")
    terminal.wait_for("@ file", "471 B")
    session.step("ask about it")
    terminal.type("the numbers")
    terminal.press("Enter")
    terminal.wait_for(f"{MODEL} got:")
    assert "line 60" in str(session.model.requests[-1]["messages"])


def use_tools(session: ChatSession) -> None:
    """Deny tool calls, allow them once and for the session, and edit their arguments."""
    terminal = session.terminal
    session.step("deny a call")
    session.send('call add {"a": 1, "b": 2}')
    terminal.wait_for_question("Run demo · add?")
    terminal.press("d")
    terminal.wait_for("The tool says: Error: The user declined this call")
    session.step("allow a call once")
    session.send('call add {"a": 2, "b": 40}')
    terminal.wait_for_question("Run demo · add?")
    terminal.press("a")
    terminal.wait_for("The tool says: 2 + 40 = 42")
    session.step("allow a tool for the session")
    session.send('call add_note {"text": "lighthouse 7741"}')
    terminal.wait_for_question("Run demo · add_note?")
    terminal.press("s")
    terminal.wait_for("The tool says:", "lighthouse 7741")
    session.step("the allowed tool runs without a question")
    session.send('call add_note {"text": "harbour 8852"}')
    terminal.wait_for_turn_end()
    terminal.wait_for("harbour 8852")
    session.step("edit the arguments of a call before it runs")
    session.send('call multiply {"a": 3, "b": 4}')
    terminal.wait_for_question("Run demo · multiply?")
    terminal.press("e")
    terminal.wait_for("ctrl+s apply")
    terminal.type("10")
    terminal.wait_for("310")
    terminal.press("C-s")
    # The title and the new value are also visible while the editor is still open.
    terminal.wait_for_question("Run demo · multiply?", "310", "edited by you")
    terminal.press("a")
    terminal.wait_for("The user changed the arguments", "310 × 4 = 1240")


def steer(session: ChatSession) -> None:
    """Queue messages, take them back, and stop answers."""
    terminal = session.terminal
    session.step("a message sent during an answer waits")
    session.send("wait for me")
    terminal.wait_until(lambda _: session.model.is_waiting, "the request")
    terminal.type("second thought")
    terminal.press("Enter")
    terminal.wait_for("» second thought", "up edits")
    session.step("take it back")
    terminal.press("Up")
    terminal.wait_until(lambda screen: "second thought" in screen and "»" not in screen, "the message to edit")
    session.step("stop the answer")
    terminal.press("C-u")
    terminal.press("Escape")
    terminal.wait_for("Stopped.", "Type a message")


def correct(session: ChatSession) -> None:
    """Edit and retry messages, switch models, fork the conversation, and go back."""
    terminal = session.terminal
    session.step("edit an earlier message and send it again")
    terminal.press("C-t")
    terminal.wait_for("esc back to the message")
    terminal.press("{")
    terminal.press("e")
    terminal.wait_for("Go back", "wait for me")
    terminal.press("Enter")
    terminal.wait_for("Editing an earlier message.")
    terminal.press("C-u")
    terminal.type("the tide is high")
    terminal.press("Enter")
    terminal.wait_for(f"{MODEL} got: the tide is high")
    session.step("answer the last message again")
    requests = len(session.model.requests)
    session.send("/retry")
    terminal.wait_until(lambda _: len(session.model.requests) > requests, "another request")
    session.step("choose another model")
    session.send("/model")
    terminal.wait_for("Models", OTHER_MODEL)
    terminal.type(OTHER_MODEL)
    terminal.wait_for("1 of")
    terminal.press("Enter")
    terminal.wait_for(f"Using ollama_chat/{OTHER_MODEL}")
    session.step("let it answer instead")
    session.send("/retry")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high")
    session.step("fork the conversation")
    session.send("/fork")
    terminal.wait_for("This is a copy.")
    session.step("see what calls did since an earlier message, and who allowed them")
    session.send("/rewind")
    terminal.wait_for("Go back", "the tide is high")
    terminal.press("Down", "Down", "Down")
    terminal.wait_for("allowed for this", "session by you", "allowed by permission")
    session.step("go back there, think better of it, and leave everything as it was")
    terminal.press("Enter")
    terminal.wait_for("Editing an earlier message.")
    terminal.press("Escape")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high")


def read(session: ChatSession) -> None:
    """Search and copy text, fold a paste, and view costs, tasks and themes."""
    terminal = session.terminal
    session.step("find a word of an earlier result")
    terminal.press("C-f")
    terminal.wait_for("text in this conversation")
    terminal.type("harbour")
    terminal.wait_for("1 of 2")
    terminal.press("Escape")
    terminal.wait_until(lambda screen: "esc close" not in screen, "the chat")
    session.step("copy the last answer")
    terminal.press("C-y")
    terminal.wait_for("Copied")
    session.step("paste a long text, which is folded")
    (session.project / "long.txt").write_text("\n".join(f"word{number}" for number in range(40)))
    terminal.tmux("load-buffer", "-b", "long", str(session.project / "long.txt"))
    terminal.tmux("paste-buffer", "-p", "-b", "long")
    terminal.wait_for("[pasted 40 lines]", "Tab unfolds the paste")
    terminal.wait_between_keys()  # keys that follow a paste at once count as pasted
    terminal.press("BSpace")
    terminal.wait_for("Type a message")
    terminal.wait_between_keys()
    session.step("see what it cost")
    session.send("/cost")
    terminal.wait_for("Costs", "This conversation")
    session.close_screen()
    session.step("see what runs")
    session.send("/tasks")
    terminal.wait_for("Nothing is running.")
    session.close_screen()
    session.step("choose a theme")
    terminal.press("C-l")
    terminal.wait_for("enter choose")
    terminal.wait_between_keys()
    terminal.press("Down")
    terminal.wait_between_keys()
    terminal.press("Enter")
    terminal.wait_until(lambda screen: "enter choose" not in screen, "the chat")


def summarize(session: ChatSession) -> None:
    """Replace the first messages with a summary, and undo it."""
    terminal = session.terminal
    session.step("summarize the beginning, after reading what would be sent")
    session.send("/compact")
    terminal.wait_for_question("Use this summary for the first 18 messages?", "lighthouse 7741")
    session.step("edit a sentence of the summary")
    terminal.press("e")
    terminal.wait_for("enter apply")
    terminal.type(" and so on")
    terminal.press("Enter")
    terminal.wait_for_question("and so on", "u use")
    terminal.press("u")
    terminal.wait_for("The model gets messages 1 to 18 as 5 sentences.")
    session.step("a fact of the beginning is still known")
    session.send("recall lighthouse")
    terminal.wait_for("I recall: - The user said", "[11; user]")
    session.step("see what the summary stands for")
    session.send("/summary")
    terminal.wait_for("Summary for the model", "message 1, user", "by you")
    session.close_screen()
    session.step("undo the summary")
    session.send("/undo-summary")
    terminal.wait_for("The model gets the messages themselves again.")


def work_by_hand(session: ChatSession) -> None:
    """Call a tool and attach a resource without the model."""
    terminal = session.terminal
    session.step("call a tool without the model")
    session.send("!demo/add a=20 b=22")
    terminal.wait_for("20 + 22 = 42", "/attach adds the result")
    session.step("attach its result")
    session.send("/attach")
    terminal.wait_for("@ result", "demo · add")
    session.step("attach a resource")
    terminal.press("F4")
    terminal.wait_for("Resources", "demo://notes")
    terminal.press("Down")
    terminal.wait_for("1. lighthouse 7741")
    terminal.press("Enter")
    terminal.wait_for("@ result", "demo · add", "@ resource", "demo · demo://notes", "ctrl+q quit")
    session.step("send both")
    session.send("what do I have")
    terminal.wait_for(f"{OTHER_MODEL} got: what do I have")
    sent = str(session.model.requests[-1]["messages"])
    assert "20 + 22 = 42" in sent
    assert "2. harbour 8852" in sent


def keep(session: ChatSession) -> None:
    """Rename, pin, export and search conversations."""
    terminal = session.terminal
    session.step("rename the conversation")
    terminal.press("F6")
    terminal.wait_for("2 conversations")
    terminal.press("n")
    terminal.wait_for("Rename the conversation")
    terminal.press("C-u")
    terminal.type("Tides")
    terminal.press("Enter")
    terminal.wait_for("title     Tides")
    session.step("pin it")
    terminal.press("p")
    terminal.wait_for("Pinned", "★ Tides")
    session.step("export it")
    terminal.press("e")
    terminal.wait_for("Export the conversation", "tides-")
    terminal.press("Enter")
    terminal.wait_for("Wrote")
    (exported,) = session.project.glob("tides-*.md")
    assert "harbour 8852" in exported.read_text()
    session.step("search all conversations")
    terminal.press("C-f")
    terminal.type("what do I have")
    terminal.wait_for("History  1 conversation")
    session.step("open the other conversation")
    terminal.press("C-u")
    terminal.wait_for("2 conversations")
    terminal.press("Down")  # moves in the list; Enter opens the hit at once
    terminal.wait_for("title     Sum up the numbers")
    terminal.press("Enter")
    terminal.wait_until(
        lambda screen: "the tide is high" in screen and "ctrl+q quit" in screen and "what do I have" not in screen,
        "the other conversation",
    )


def come_back(session: ChatSession) -> None:
    """Kill the program, and find everything unchanged after starting it again."""
    terminal = session.terminal
    session.step("kill the program while a text is not sent yet")
    session.send("good night")
    terminal.wait_for(f"{OTHER_MODEL} got: good night")
    terminal.wait_for_turn_end()
    terminal.type("an unsent thought")
    terminal.wait_until(lambda _: "an unsent thought" in session.saved_drafts(), "the saved text")
    program = terminal.program()
    program.kill()
    terminal.wait_until(lambda _: not program.is_running(), "its end")
    with Terminal(session.folder, environment=session.environment) as window:
        window.run("cd", str(session.project))
        session.step("resume in another window")
        window.run(*with_forked_worker(), "--resume")
        window.wait_for("got: good night", "an unsent thought")
        session.step("verify the audit log")
        window.press("F10")
        window.wait_for("v verify", "newest")
        window.press("v")
        window.wait_for("rows are unchanged.")
    started, ended = session.audited_calls()
    assert len(started) == 5
    assert ended == started


@pytest.mark.timeout(480)
def test_forty_steps_of_a_session_are_taken_by_keyboard(tmp_path: Path) -> None:
    with open_session(tmp_path, ScriptedModel()) as session:
        begin(session)
        use_tools(session)
        steer(session)
        correct(session)
        read(session)
        summarize(session)
        work_by_hand(session)
        keep(session)
        come_back(session)
        assert len(session.steps) >= 40
