"""A long session with the real program in a terminal: by mouse wherever possible, with the keyboard only for text."""

from pathlib import Path

from tests.terminal.chat_session import ChatSession, open_session
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.scripted_model import MODEL, OTHER_MODEL, ScriptedModel


def begin(session: ChatSession) -> None:
    """Set up the chat and answer questions."""
    terminal = session.terminal
    session.step("tick a server and start")
    terminal.run(*with_forked_worker())
    terminal.wait_for("Set up mcphost", f"ollama_chat/{MODEL}", "demo", seconds=30)
    terminal.click("□ demo")
    terminal.wait_for("■ demo")
    terminal.click("Start", last=True)
    terminal.wait_for(f"Using ollama_chat/{MODEL}", "1/1 server", seconds=30)
    session.step("open a question and deny")
    session.send('call add {"a": 1, "b": 2}')
    session.click_answer("Deny")
    terminal.wait_for("The tool says: Error: The user declined this call")
    session.step("allow once")
    session.send('call add {"a": 2, "b": 40}')
    session.click_answer("Allow once")
    terminal.wait_for("The tool says: 2 + 40 = 42")


def correct(session: ChatSession) -> None:
    """Use another model, stop an answer, and edit an earlier message."""
    terminal = session.terminal
    session.step("choose a model by its name")
    terminal.wait_for_turn_end()
    terminal.click(f"ollama_chat/{MODEL}")
    terminal.wait_for("Models", OTHER_MODEL)
    terminal.click(OTHER_MODEL)
    terminal.wait_for(f"Using ollama_chat/{OTHER_MODEL}")
    session.step("stop an answer")
    session.send("wait for me")
    terminal.wait_until(lambda _: session.model.is_waiting, "the request")
    terminal.click("esc stop")
    terminal.wait_for("Stopped.")
    session.step("go back to an earlier message, and send it changed")
    terminal.click("^P palette")
    terminal.wait_for("Search for commands")
    terminal.type("go back")
    terminal.click("Go back and edit a message")
    terminal.wait_for("Go back", "3 of 3")
    terminal.click('call add {"a": 2, "b": 40}')
    terminal.wait_for("Editing an earlier message.")
    terminal.press("C-u")
    terminal.type("the tide is high")
    terminal.press("Enter")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high")


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
        terminal.wait_for("^P palette", "^Q quit")
    session.step("attach a resource")
    terminal.click("F4 resources")
    terminal.click("What this server offers")
    terminal.wait_for("@ resource", "demo · demo://guide", "^Q quit")
    session.step("view it, and remove it")
    terminal.click("demo · demo://guide")
    terminal.wait_for("/ find", "esc back")
    terminal.click("esc back")
    terminal.wait_for("@ resource", "^Q quit")
    terminal.click("×")
    terminal.wait_until(lambda screen: "@ resource" not in screen, "the removal")
    session.step("open a conversation of the history")
    terminal.click("F6 history")
    terminal.wait_for("1 conversation")
    terminal.click("messages · ollama")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high", "^Q quit")


def test_the_mouse_suffices_for_all_but_texts(tmp_path: Path) -> None:
    with open_session(tmp_path, ScriptedModel()) as session:
        begin(session)
        correct(session)
        look_around(session)
