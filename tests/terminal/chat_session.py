"""A chat in a terminal, with a demo server as a real process and a scripted model server with Ollama's API."""

import json
import sqlite3
import sys
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from time import monotonic

from tests.fakes.json_server import json_server
from tests.terminal.demo_program import with_forked_worker
from tests.terminal.scripted_model import MODEL, ScriptedModel
from tests.terminal.terminal import PROMPT, Terminal

DEMO_SERVER = {"command": sys.executable, "args": ["-m", "mcphost.demo.server"]}


class ChatSession:
    """A chat in a terminal, in a project that contains a text file; `steps` names the test's steps so far."""

    def __init__(self, folder: Path, model: ScriptedModel, environment: Mapping[str, str], terminal: Terminal) -> None:
        self.folder, self.project = folder, folder / "project"
        self.model, self.environment, self.terminal = model, environment, terminal
        self.steps: list[str] = []

    def step(self, name: str) -> None:
        """Begin a step of the test; if the test fails, the names of all steps so far are shown."""
        self.steps.append(name)
        print(f"{len(self.steps)}. {name}")

    def send(self, text: str) -> None:
        """Send a message as soon as no turn is running."""
        self.terminal.wait_for_turn_end()
        self.terminal.type(text)
        self.terminal.wait_for(text[-30:])
        self.terminal.press("Enter")

    def open_question(self, text: str) -> None:
        """Wait until the question shows *text*; open it with the mouse if it is only a card."""
        terminal = self.terminal
        screen = terminal.wait_until(lambda now: "click to open" in now or text in now, "a question")
        terminal.wait_between_keys()
        if "click to open" in screen:
            terminal.click("click to open")
            terminal.wait_for(text)
            terminal.wait_between_keys()

    def click_answer(self, label: str) -> None:
        """Open the question with the mouse if it is only a card, and click the answer *label* until it is accepted."""
        terminal = self.terminal
        self.open_question(label)
        terminal.click(label)
        clicked = monotonic()

        def is_answered(screen: str) -> bool:
            nonlocal clicked
            if label in screen and monotonic() - clicked > 2:
                terminal.click(label)
                clicked = monotonic()
            return label not in screen

        terminal.wait_until(is_answered, "an answered question")

    def choose(self, text: str, entry: str) -> None:
        """Open the command palette with the mouse, type *text*, and click *entry*."""
        self.terminal.click("ctrl+p palette")
        self.terminal.wait_for("Search for commands")
        self.terminal.type(text)
        # The palette lists all actions until the search is done, and the entry may move while others are found.
        self.terminal.wait_until(lambda now: entry in now and "New conversation" not in now, entry)
        self.terminal.wait_between_keys()
        self.terminal.click(entry, last=True)

    def close_screen(self) -> None:
        """Close a screen with Escape, and wait until the chat is visible."""
        self.terminal.wait_between_keys()
        self.terminal.press("Escape")
        self.terminal.wait_for("ctrl+p palette", "ctrl+q quit")

    def saved_drafts(self) -> str:
        """Return the unsent texts in the database."""
        with closing(sqlite3.connect(self.folder / "data" / "mcphost.db")) as db:
            return str(db.execute("SELECT body FROM unsent_texts").fetchall())

    def audited_calls(self) -> tuple[list[int], list[int]]:
        """Return the audit row numbers of all started tool calls, and those that the rows of ended calls refer to."""
        with closing(sqlite3.connect(self.folder / "data" / "ledger.db")) as db:
            rows = db.execute("SELECT event, seq, about FROM ledger WHERE kind = 'tool' ORDER BY seq").fetchall()
        started = [seq for event, seq, _ in rows if event == "started"]
        return started, sorted(about for event, _, about in rows if event == "ended")


def begin_chat(session: ChatSession, settings: str = "") -> None:
    """Open a chat with a configured model and server, and approve the server; *settings* are added to config.toml.

    The shell copies the configuration files, because they may belong on a file system that only the shell sees. Without
    a configuration, the start card would open, whose content depends on how fast the model server is found.
    """
    config, seed = session.folder / "config", session.folder / "seed"
    seed.mkdir()
    (seed / "config.toml").write_text(f'[model]\nname = "ollama_chat/{MODEL}"\n{settings}')
    (seed / "mcp.json").write_text(json.dumps({"mcpServers": {"demo": DEMO_SERVER}}))
    session.terminal.run("mkdir", "-p", str(config))
    session.terminal.run("cp", str(seed / "config.toml"), str(seed / "mcp.json"), str(config))
    session.terminal.run(*with_forked_worker())
    session.terminal.wait_for_question("Use the server demo?")
    session.terminal.press("A")
    session.terminal.wait_for(f"ollama_chat/{MODEL}", "1/1 server")


def quit_chat(session: ChatSession) -> str:
    """Quit, and return the screen once it shows the program's last line and the shell's prompt.

    A prompt alone is not enough, because the old one becomes visible again when the program leaves the alternate
    screen.
    """
    session.terminal.press("C-q")
    told = "to continue this conversation"
    return session.terminal.wait_until(lambda now: told in now and now.rstrip().endswith(PROMPT), told)


@contextmanager
def open_session(folder: Path, model: ScriptedModel, more: Mapping[str, str] | None = None) -> Generator[ChatSession]:
    """Open a terminal in a project, with a model server on loopback and no configuration yet.

    *more* contains further environment variables.
    """
    project = folder / "project"
    project.mkdir()
    (project / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 61)))
    (folder / ".claude.json").write_text(json.dumps({"mcpServers": {"demo": DEMO_SERVER}}))
    with json_server(model.answers) as ollama:
        environment = {
            "HOME": str(folder),
            "OLLAMA_HOST": ollama.url,
            "ANTHROPIC_API_KEY": "",
            "OPENAI_API_KEY": "",
            "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent",
            **(more or {}),
        }
        with Terminal(folder, environment=environment) as terminal:
            terminal.run("cd", str(project))
            yield ChatSession(folder, model, environment, terminal)
