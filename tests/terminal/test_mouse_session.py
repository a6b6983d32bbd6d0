"""A long session with the real program in a terminal: by mouse wherever possible, with the keyboard only for text."""

from pathlib import Path

import pytest

from tests.terminal.chat_session import ChatSession, open_session
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.scripted_model import MODEL, OTHER_MODEL, ScriptedModel
from tests.terminal.terminal import PROMPT, Terminal


def begin(session: ChatSession) -> None:
    """Set up the chat and answer questions."""
    terminal = session.terminal
    session.step("tick a server and start")
    terminal.run(*with_forked_worker())
    terminal.wait_for("Set up mcphost", f"ollama_chat/{MODEL}", "demo")
    terminal.click("□ demo")
    terminal.wait_for("■ demo")
    terminal.click("Start", last=True)
    terminal.wait_for(f"Using ollama_chat/{MODEL}", "1/1 server")
    session.step("attach a file with a click on its name, and ask about it")
    terminal.type("Sum up @notes.t")
    terminal.wait_for("notes.txt")
    terminal.click("notes.txt")
    terminal.wait_for("@ file", "471 B")
    session.send("the numbers")
    terminal.wait_for(f"{MODEL} got:")
    assert "line 60" in str(session.model.requests[-1]["messages"])
    session.step("open a question and deny")
    session.send('call add {"a": 1, "b": 2}')
    session.click_answer("Deny")
    terminal.wait_for("The tool says: Error: The user declined this call")
    session.step("allow once")
    session.send('call add {"a": 2, "b": 40}')
    session.click_answer("Allow once")
    terminal.wait_for("The tool says: 2 + 40 = 42")


def paste(session: ChatSession, text: str) -> None:
    """Paste a text from the clipboard of the terminal."""
    file = session.folder / "clipboard.txt"
    file.write_text(text)
    session.terminal.tmux("load-buffer", "-b", "clipboard", str(file))
    session.terminal.tmux("paste-buffer", "-p", "-b", "clipboard")


def use_tools(session: ChatSession) -> None:
    """View and edit a call, allow a tool for the session, and call one without the model."""
    terminal = session.terminal
    session.step("view a call in full, and edit its arguments")
    session.send('call multiply {"a": 3, "b": 4}')
    session.open_question("v all")
    terminal.click("v all")
    terminal.wait_for("esc back")
    terminal.click("esc back")
    terminal.wait_for("a once", "e edit")
    terminal.wait_between_keys()
    terminal.click("e edit")
    terminal.wait_for("ctrl+s apply")
    terminal.press("C-u")
    terminal.type("310")
    terminal.wait_for("310")
    terminal.click("ctrl+s apply")
    terminal.wait_for("edited by you")
    session.click_answer("Allow once")
    terminal.wait_for("310 × 4 = 1240")
    session.step("allow a tool for the session")
    session.send('call add_note {"text": "lighthouse 7741"}')
    session.click_answer("Allow this session")
    terminal.wait_for("The tool says:", "lighthouse 7741")
    session.step("call a tool without the model")
    terminal.wait_for_turn_end()
    terminal.click("F3 servers")
    terminal.wait_for("t tools")
    terminal.click("t tools")
    terminal.wait_for("add_note")
    terminal.click("● add ")
    terminal.click("enter call")
    terminal.wait_for("Call demo · add", "ctrl+s call")
    terminal.type("20")
    terminal.wait_for("20")
    terminal.click("b*      ▌required")
    terminal.type("22")
    terminal.wait_for("b*      ▌22")
    terminal.click("ctrl+s call")
    terminal.wait_for("20 + 22 = 42")
    terminal.wait_for("/attach adds the result", "ctrl+q quit")


def correct(session: ChatSession) -> None:
    """Use another model, stop an answer, and edit an earlier message."""
    terminal = session.terminal
    session.step("choose a model by its name")
    terminal.wait_for_turn_end()
    terminal.click(f"ollama_chat/{MODEL}")
    terminal.wait_for("Models", OTHER_MODEL)
    terminal.click(OTHER_MODEL)
    terminal.wait_for(f"Using ollama_chat/{OTHER_MODEL}")
    session.step("messages wait for the answer")
    session.send("wait for me")
    terminal.wait_until(lambda _: session.model.is_waiting, "the request")
    for text in ("second thought", "third thought"):
        terminal.type(text)
        terminal.press("Enter")
        terminal.wait_for(f"» {text}")
    session.step("remove the first of them")
    terminal.click("×")
    terminal.wait_until(lambda screen: "second thought" not in screen, "the removal")
    session.step("take the other one back")
    terminal.click("» third thought")
    terminal.wait_until(lambda screen: "third thought" in screen and "»" not in screen, "the message to edit")
    terminal.press("C-u")
    session.step("stop the answer")
    terminal.click("esc stop")
    terminal.wait_for("Stopped.")
    session.step("go back to an earlier message, and send it changed")
    terminal.click("ctrl+p palette")
    terminal.wait_for("Search for commands")
    terminal.type("go back")
    terminal.wait_until(lambda screen: "New conversation" not in screen, "only what was found")
    terminal.click("Go back and edit a message")
    terminal.wait_for("Go back", "4 of 4")
    terminal.click('call add {"a": 2, "b": 40}')
    terminal.wait_for("Editing an earlier message.")
    terminal.press("C-u")
    terminal.type("the tide is high")
    terminal.press("Enter")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high")
    session.step("let the other model answer instead")
    session.choose("another model", "Answer again with another model")
    terminal.wait_for("Models", "tools")
    terminal.click(MODEL)
    terminal.wait_for(f"{MODEL} got: the tide is high")
    session.step("answer the last message again")
    requests = len(session.model.requests)
    session.choose("last message again", "Answer the last message again")
    terminal.wait_until(lambda _: len(session.model.requests) > requests, "another request")
    terminal.wait_for_turn_end()


def find(session: ChatSession) -> None:
    """Find text in the conversation, copy an answer, and see what fills the window."""
    terminal = session.terminal
    session.step("find a word in the conversation")
    session.choose("find in", "Find in the conversation")
    terminal.wait_for("text in this conversation")
    terminal.type("numbers")
    terminal.wait_for("1 of 2", "esc close")
    terminal.click("↓ down")
    terminal.wait_for("2 of 2")
    terminal.click("esc close")
    terminal.wait_until(lambda screen: "esc close" not in screen, "the chat")
    session.step("copy the last answer")
    session.choose("copy the last", "Copy the last answer  ")
    terminal.wait_for("Copied")
    session.step("see what fills the window")
    session.choose("context", "Context  ")
    terminal.wait_for("Next request", "System prompt", "esc back")
    terminal.click("esc back")
    terminal.wait_for("ctrl+p palette", "ctrl+q quit")


def look_around(session: ChatSession) -> None:
    """Open screens and leave them."""
    terminal = session.terminal
    for key, title in (
        ("F1 help", "Help"),
        ("F3 servers", "protocol"),
        ("F4 resources", "demo://guide"),
        ("F5 prompts", "Plan something"),
        ("● demo", "implementation"),
        ("▸ Tasks", "Nothing is running."),
    ):
        session.step(f"click {key}")
        terminal.click(key)
        terminal.wait_for(title, "esc back")
        terminal.click("esc back")
        terminal.wait_for("ctrl+p palette", "ctrl+q quit")
    session.step("attach a resource")
    terminal.click("F4 resources")
    terminal.click("What this server offers")
    terminal.wait_for("@ resource", "demo · demo://guide", "ctrl+q quit")
    session.step("view it, and remove it")
    terminal.click("demo · demo://guide")
    terminal.wait_for("/ find", "esc back")
    terminal.click("esc back")
    terminal.wait_for("@ resource", "ctrl+q quit")
    terminal.click("×")
    terminal.wait_until(lambda screen: "@ resource" not in screen, "the removal")
    session.step("search the history, and open a conversation of it")
    terminal.click("F6 history")
    terminal.wait_for("1 conversation")
    terminal.click("ctrl+f search")
    terminal.type("tide")
    terminal.wait_for("1 conversation")
    terminal.click("messages · ollama")
    terminal.wait_for(f"{MODEL} got: the tide is high", "ctrl+q quit")


def tidy(session: ChatSession) -> None:
    """Choose a theme, view costs, summarize the conversation, fork it, and keep it under another name."""
    terminal = session.terminal
    session.step("choose a theme")
    session.choose("theme", "Choose a theme")
    terminal.wait_for("tide-dark", "enter choose")
    terminal.click("tide-dark")
    terminal.wait_until(lambda screen: "enter choose" not in screen, "the chat")
    session.step("see what it cost")
    session.choose("costs", "Costs  ")
    terminal.wait_for("This conversation", "esc back")
    terminal.click("esc back")
    terminal.wait_for("ctrl+p palette", "ctrl+q quit")
    session.step("send a long text, which is folded")
    paste(session, "\n".join(f"line {number} of the report" for number in range(200)))
    terminal.wait_for("[pasted 200 lines]")
    terminal.wait_between_keys()  # a key that follows a paste at once counts as pasted
    terminal.press("Enter")
    terminal.wait_for("got: line 199")
    terminal.wait_between_keys()
    session.send("thank you")
    terminal.wait_for("got: thank you")
    terminal.wait_for_turn_end()
    session.step("summarize the beginning")
    session.choose("summarize", "Summarize earlier messages")
    session.open_question("u use")
    terminal.click("u use")
    terminal.wait_for("The model gets messages 1 to")
    session.step("undo the summary")
    session.choose("undo the summary", "Undo the summary")
    terminal.wait_for("The model gets the messages themselves again.")
    session.step("fork the conversation")
    session.choose("fork", "Fork the conversation")
    terminal.wait_for("This is a copy.")
    session.step("rename the copy")
    terminal.click("F6 history")
    terminal.wait_for("2 conversations")
    terminal.click("n rename")
    terminal.wait_for("Rename the conversation")
    terminal.press("C-u")
    terminal.type("Tides")
    terminal.click("enter rename")
    terminal.wait_for("title     Tides")
    session.step("pin it")
    terminal.click("p pin")
    terminal.wait_for("Pinned", "★ Tides")
    session.step("export it")
    terminal.click("e export")
    terminal.wait_for("Export the conversation", "tides-")
    terminal.click("enter save")
    # The page behind the form, with its key hints, is visible before the form has gone.
    terminal.wait_until(lambda screen: "Wrote" in screen and "Export the conversation" not in screen, "the page")
    terminal.click("esc back")
    terminal.wait_for("ctrl+p palette", "ctrl+q quit")
    session.step("delete the copy")
    terminal.click("F6 history")
    terminal.wait_for("2 conversations", "title     Tides")
    terminal.click("x delete")
    terminal.wait_for("again")
    terminal.click("x delete")
    terminal.wait_for("1 conversation\n")
    terminal.click("esc back")
    terminal.wait_for("ctrl+p palette", "ctrl+q quit")
    session.step("verify the audit log")
    session.choose("audit", "Audit log  ")
    terminal.wait_for("v verify", "newest")
    terminal.click("v verify")
    terminal.wait_for("rows are unchanged.")
    terminal.click("esc back")
    terminal.wait_for("ctrl+p palette", "ctrl+q quit")
    session.step("see the permissions, and revoke one")
    session.choose("permissions", "Permissions  ")
    terminal.wait_for("add_note", "x revoke")
    terminal.click("x revoke")
    terminal.wait_for("again")
    terminal.wait_between_keys()
    terminal.click("x revoke")
    # The empty list has fewer keys: "esc back" moves when the key bar, the last row, is drawn.
    terminal.wait_until(lambda screen: "No permissions." in screen and "x revoke" not in screen, "the empty list")
    terminal.click("esc back")
    terminal.wait_for("ctrl+p palette", "ctrl+q quit")
    session.step("find the conversation again after the program was killed")
    program = terminal.program()
    program.kill()
    terminal.wait_until(lambda _: not program.is_running(), "its end")
    with Terminal(session.folder, environment=session.environment) as window:
        window.run("cd", str(session.project))
        window.run(*with_forked_worker())
        window.wait_for("F6 history", "1/1 server")
        window.click("F6 history")
        window.wait_for("1 conversation")
        window.click("messages · ollama")
        window.wait_for("got: thank you", "ctrl+q quit")
        quit_by_mouse(session, window)


def quit_by_mouse(session: ChatSession, terminal: Terminal) -> None:
    """Quit with a click, and wait for the shell."""
    session.step("quit")
    terminal.click("ctrl+q quit")
    terminal.wait_until(lambda screen: screen.rstrip().endswith(PROMPT), "the shell")


@pytest.mark.timeout(480)
def test_the_mouse_suffices_for_all_but_texts(tmp_path: Path) -> None:
    with open_session(tmp_path, ScriptedModel()) as session:
        begin(session)
        correct(session)
        find(session)
        look_around(session)
        use_tools(session)
        tidy(session)
        assert len(session.steps) >= 40
