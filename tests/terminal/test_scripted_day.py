"""A day with the program in a terminal: forty steps by keyboard."""

from pathlib import Path

from tests.terminal.demo_program import with_forked_worker
from tests.terminal.scripted_model import MODEL, OTHER_MODEL, ScriptedModel
from tests.terminal.terminal import Terminal
from tests.terminal.working_day import Day, open_day


def begin(day: Day) -> None:
    """Set up and get the first answer with an attachment."""
    terminal = day.terminal
    day.step("start: the model and the server of this machine are proposed")
    terminal.run(*with_forked_worker())
    terminal.wait_for("Set up mcphost", f"ollama_chat/{MODEL}", "demo", seconds=30)
    day.step("take both with two keys")
    terminal.press("C-a")
    terminal.wait_for("■ demo")
    terminal.press("Enter")
    terminal.wait_for(f"Using ollama_chat/{MODEL}", "1/1 server", seconds=30)
    day.step("attach a file")
    terminal.type("Sum up @notes.t")
    terminal.wait_for("notes.txt")
    terminal.press("Tab")
    terminal.wait_for("@ file", "471 B")
    day.step("ask about it")
    terminal.type("the numbers")
    terminal.press("Enter")
    terminal.wait_for(f"{MODEL} got:", seconds=60)
    assert "line 60" in str(day.model.requests[-1]["messages"])


def use_tools(day: Day) -> None:
    """Deny calls, allow them once and for the session, and edit them."""
    terminal = day.terminal
    day.step("deny a call")
    day.send('call add {"a": 1, "b": 2}')
    terminal.wait_for_question("demo wants to run add")
    terminal.press("d")
    terminal.wait_for("The tool says: Error: The user declined this call")
    day.step("allow a call once")
    day.send('call add {"a": 2, "b": 40}')
    terminal.wait_for_question("demo wants to run add")
    terminal.press("a")
    terminal.wait_for("The tool says: 2 + 40 = 42")
    day.step("allow a tool for the session")
    day.send('call add_note {"text": "lighthouse 7741"}')
    terminal.wait_for_question("demo wants to run add_note")
    terminal.press("s")
    terminal.wait_for("The tool says:", "lighthouse 7741")
    day.step("the allowed tool runs without a question")
    day.send('call add_note {"text": "harbour 8852"}')
    terminal.wait_for_turn_end()
    terminal.wait_for("harbour 8852")
    day.step("edit the arguments of a call before it runs")
    day.send('call multiply {"a": 3, "b": 4}')
    terminal.wait_for_question("demo wants to run multiply")
    terminal.press("e")
    terminal.wait_for("ctrl+s apply")
    terminal.type("10")
    terminal.wait_for("310")
    terminal.press("C-s")
    terminal.wait_for_question("demo wants to run multiply", "310")
    terminal.press("a")
    terminal.wait_for("The user changed the arguments", "310 × 4 = 1240")


def steer(day: Day) -> None:
    """Queue messages, take them back, and stop answers."""
    terminal = day.terminal
    day.step("a message sent during an answer waits")
    day.send("wait for me")
    terminal.wait_until(lambda _: day.model.is_waiting, "the request")
    terminal.type("second thought")
    terminal.press("Enter")
    terminal.wait_for("» second thought", "sent after this answer")
    day.step("take it back")
    terminal.press("Up")
    terminal.wait_until(lambda screen: "second thought" in screen and "»" not in screen, "the message to edit")
    day.step("stop the answer")
    terminal.press("C-u")
    terminal.press("Escape")
    terminal.wait_for("Stopped.", "Type a message")


def correct(day: Day) -> None:
    """Edit and retry messages, switch models, fork, and go back."""
    terminal = day.terminal
    day.step("edit an earlier message and send it again")
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
    day.step("answer the last message again")
    requests = len(day.model.requests)
    day.send("/retry")
    terminal.wait_until(lambda _: len(day.model.requests) > requests, "another request")
    day.step("choose another model")
    day.send("/model")
    terminal.wait_for("Models", OTHER_MODEL)
    terminal.type(OTHER_MODEL)
    terminal.wait_for("1 of")
    terminal.press("Enter")
    terminal.wait_for(f"Using ollama_chat/{OTHER_MODEL}")
    day.step("let it answer instead")
    day.send("/retry")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high")
    day.step("fork the conversation")
    day.send("/fork")
    terminal.wait_for("This is a copy.")
    day.step("see what calls did since an earlier message, and who allowed them")
    day.send("/rewind")
    terminal.wait_for("Go back", "the tide is high")
    terminal.press("Down", "Down", "Down")
    terminal.wait_for("session by you", "allow by session")
    day.step("go back there, think better of it, and leave everything as it was")
    terminal.press("Enter")
    terminal.wait_for("Editing an earlier message.")
    terminal.press("Escape")
    terminal.wait_for(f"{OTHER_MODEL} got: the tide is high")


def read(day: Day) -> None:
    """Find and copy text, fold a paste, and view costs, tasks and themes."""
    terminal = day.terminal
    day.step("find a word of an earlier result")
    terminal.press("C-f")
    terminal.wait_for("text in this conversation")
    terminal.type("harbour")
    terminal.wait_for("1 of 2")
    terminal.press("Escape")
    terminal.wait_until(lambda screen: "esc close" not in screen, "the chat")
    day.step("copy the last answer")
    terminal.press("C-y")
    terminal.wait_for("Copied")
    day.step("paste a long text, which is folded")
    (day.project / "long.txt").write_text("\n".join(f"word{number}" for number in range(40)))
    terminal.tmux("load-buffer", "-b", "long", str(day.project / "long.txt"))
    terminal.tmux("paste-buffer", "-p", "-b", "long")
    terminal.wait_for("[pasted 40 lines]", "Tab unfolds the paste")
    terminal.wait_between_keys()  # keys that follow a paste at once count as pasted
    terminal.press("BSpace")
    terminal.wait_for("Type a message")
    terminal.wait_between_keys()
    day.step("see what it cost")
    day.send("/cost")
    terminal.wait_for("Costs", "This conversation")
    day.close_screen()
    day.step("see what runs")
    day.send("/tasks")
    terminal.wait_for("Nothing is running.")
    day.close_screen()
    day.step("choose a theme")
    terminal.press("C-l")
    terminal.wait_for("enter choose")
    terminal.wait_between_keys()
    terminal.press("Down")
    terminal.wait_between_keys()
    terminal.press("Enter")
    terminal.wait_until(lambda screen: "enter choose" not in screen, "the chat")


def summarize(day: Day) -> None:
    """Replace the first messages with a summary, and undo it."""
    terminal = day.terminal
    day.step("summarize the beginning, after reading what would be sent")
    day.send("/compact")
    terminal.wait_for_question("Use this summary for the first 18 messages?", "lighthouse 7741")
    day.step("edit a sentence of the summary")
    terminal.press("e")
    terminal.wait_for("enter applies")
    terminal.type(" and so on")
    terminal.press("Enter")
    terminal.wait_for_question("and so on", "u use")
    terminal.press("u")
    terminal.wait_for("The model gets messages 1 to 18 as 5 sentences.")
    day.step("a fact of the beginning is still known")
    day.send("recall lighthouse")
    terminal.wait_for("I recall: - The user said", "[11; user]")
    day.step("see what the summary stands for")
    day.send("/summary")
    terminal.wait_for("Summary for the model", "message 1, user", "by you")
    day.close_screen()
    day.step("undo the summary")
    day.send("/undo-summary")
    terminal.wait_for("The model gets the messages themselves again.")


def work_by_hand(day: Day) -> None:
    """Call a tool and attach a resource without the model."""
    terminal = day.terminal
    day.step("call a tool without the model")
    day.send("!demo/add a=20 b=22")
    terminal.wait_for("20 + 22 = 42", "/attach adds the result")
    day.step("attach its result")
    day.send("/attach")
    terminal.wait_for("@ result", "demo · add")
    day.step("attach a resource")
    terminal.press("F4")
    terminal.wait_for("Resources", "demo://notes")
    terminal.press("Down")
    terminal.wait_for("1. lighthouse 7741")
    terminal.press("Enter")
    terminal.wait_for("@ result", "demo · add", "@ resource", "demo · demo://notes", "esc stop")
    day.step("send both")
    day.send("what do I have")
    terminal.wait_for(f"{OTHER_MODEL} got: what do I have")
    sent = str(day.model.requests[-1]["messages"])
    assert "20 + 22 = 42" in sent
    assert "2. harbour 8852" in sent


def keep(day: Day) -> None:
    """Rename, pin, export and search conversations."""
    terminal = day.terminal
    day.step("rename the conversation")
    terminal.press("F6")
    terminal.wait_for("2 conversations")
    terminal.press("n")
    terminal.wait_for("Rename the conversation")
    terminal.press("C-u")
    terminal.type("Tides")
    terminal.press("Enter")
    terminal.wait_for("title     Tides")
    day.step("pin it")
    terminal.press("p")
    terminal.wait_for("Pinned", "★ Tides")
    day.step("export it")
    terminal.press("e")
    terminal.wait_for("Export the conversation", "tides-")
    terminal.press("Enter")
    terminal.wait_for("Wrote tides-")
    (exported,) = day.project.glob("tides-*.md")
    assert "harbour 8852" in exported.read_text()
    day.step("search all conversations")
    terminal.press("C-f")
    terminal.type("what do I have")
    terminal.wait_for("1 conversation ")
    day.step("open the other conversation")
    terminal.press("C-u")
    terminal.wait_for("2 conversations")
    terminal.press("Down")  # moves in the list; Enter opens the hit at once
    terminal.wait_for("title     Sum up the numbers")
    terminal.press("Enter")
    terminal.wait_until(
        lambda screen: "the tide is high" in screen and "esc stop" in screen and "what do I have" not in screen,
        "the other conversation",
    )


def come_back(day: Day) -> None:
    """Kill the program, and find everything unchanged in another window."""
    terminal = day.terminal
    day.step("kill the program while a text is not sent yet")
    day.send("good night")
    terminal.wait_for(f"{OTHER_MODEL} got: good night")
    terminal.wait_for_turn_end()
    terminal.type("an unsent thought")
    terminal.wait_until(lambda _: "an unsent thought" in day.saved_drafts(), "the saved text")
    program = terminal.program()
    program.kill()
    terminal.wait_until(lambda _: not program.is_running(), "its end")
    with Terminal(day.folder, environment=day.environment) as window:
        window.run("cd", str(day.project))
        day.step("resume in another window")
        window.run(*with_forked_worker(), "--resume")
        window.wait_for("got: good night", "an unsent thought", seconds=30)
        day.step("verify the audit log")
        window.press("F10")
        window.wait_for("v verify", "newest")
        window.press("v")
        window.wait_for("rows are unchanged.")
    started, ended = day.audited_calls()
    assert len(started) == 5
    assert ended == started


def test_forty_steps_of_a_day_are_taken_by_keyboard(tmp_path: Path) -> None:
    with open_day(tmp_path, ScriptedModel()) as day:
        begin(day)
        use_tools(day)
        steer(day)
        correct(day)
        read(day)
        summarize(day)
        work_by_hand(day)
        keep(day)
        come_back(day)
        assert len(day.steps) >= 40
