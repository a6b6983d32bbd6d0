"""A simulated user who types ahead and then refuses or accepts a dialog, with checks of the effects."""

import json
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcphost.tui.dialogs.dialog import Dialog
from tests.flows.consent_attacks.attack import AttackSetup
from tests.terminal.terminal import WAIT_SECONDS, Terminal, accepts_keys, is_unfocused

HOSTILE = str(Path(__file__).parents[1] / "flows" / "consent_attacks" / "hostile_server.py")
_RETRY_SECONDS = 6.0
"""Seconds after which a key that did nothing came too early on a busy machine, and is pressed again."""
_GUARD_SECONDS = 0.25
"""A question that appeared fewer seconds ago than this certainly ignores the keys that the program reads."""
_POLL_SECONDS = 0.02
_REPEAT_SECONDS = 0.05
_SLOW_REPEAT_SECONDS = 0.5
"""Seconds after which keys that changed nothing on the screen are pressed again."""
_ATTEMPTS = 3

Texts = Sequence[str]


class DialogUser:
    """A terminal with the program, a hostile server, and the dialogs tested so far.

    `refused` contains the dialogs that ignored early keys and were refused with Escape; `agreed` contains those whose
    acceptance took effect.
    """

    def __init__(self, terminal: Terminal, folder: Path) -> None:
        self.terminal = terminal
        self.setup = AttackSetup(folder, None)  # type: ignore[arg-type]
        self.setup.ledger = folder / "data" / "ledger.db"
        self.refused: set[type] = set()
        self.agreed: set[type] = set()

    # -- environment of the program
    def hostile_server(
        self, name: str, *tools: Any, mcphost: dict[str, Any] | None = None, **plan: Any
    ) -> dict[str, Any]:
        """Return an mcp.json entry for a server that follows a plan and records its effects."""
        env = self.setup.server_environment(name, self.setup.write_plan(name, *tools, **plan))
        return {"command": sys.executable, "args": [HOSTILE], "env": env, "mcphost": mcphost or {}}

    def write_config(self, settings: str, **servers: dict[str, Any]) -> None:
        """Write the user's own config.toml, and an mcp.json if *servers* are given."""
        folder = self.setup.folder / "config"
        folder.mkdir()
        (folder / "config.toml").write_text(settings)
        if servers:
            (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def start_chat(self, *flags: str, **servers: dict[str, Any]) -> None:
        """Start the chat with the demo model and these servers."""
        config = self.setup.folder / "given.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        self.terminal.start_chat("--model", "demo", "--mcp-config", str(config), *flags)

    def wait_for_servers(self) -> None:
        """Wait until the only server is ready."""
        self.terminal.wait_for("1/1 server", "F6 history")

    def effects(self, mark: int = 0) -> list[str]:
        """Return the recorded effects from index *mark* on, such as `tool add`, except starts of processes."""
        seen = [effect for effect in self.setup.effects()[mark:] if effect["what"] != "process"]
        return [f"{message['what']} {message['name']}" if message.get("name") else message["what"] for message in seen]

    def expect_effects(self, mark: int, *effects: str) -> None:
        """Wait until exactly these effects have been recorded from index *mark* on, in any order."""
        self.terminal.wait_until(lambda _: len(self.effects(mark)) >= len(effects), f"effects {effects}")
        assert sorted(self.effects(mark)) == sorted(effects)

    def answers(self, mark: int) -> list[str]:
        """Return the user's answers in the audit log from row *mark* on, such as `tool deny`."""
        rows = self._rows()[mark:]
        return [f"{row['kind']} {row['decision']}" for row in rows if row["event"] == "answered"]

    def _rows(self) -> list[dict[str, Any]]:
        try:
            return self.setup.audit_rows()
        except sqlite3.OperationalError:  # the file exists and is still empty
            return []

    @property
    def marks(self) -> tuple[int, int]:
        """The current number of recorded effects and of audit rows."""
        return len(self.setup.effects()), len(self._rows())

    # -- at the keyboard
    def type_message(self, text: str) -> None:
        """Type a message without sending it."""
        # One row at a time; right after Escape it is read as another key.
        while "Type a message" not in (screen := self.terminal.screen()):
            self.terminal.press("C-u")
            with suppress(AssertionError):
                self.terminal.wait_until(lambda now, was=screen: now != was, "a row less", seconds=0.5)
        self.terminal.type(text)
        self.terminal.wait_until(lambda screen: text.strip() in map(str.strip, screen.splitlines()), text)

    def message_action(self, text: str) -> Callable[[], None]:
        """Return a function that sends a message and types letters immediately afterwards."""

        def sent() -> None:
            self.terminal.wait_for_turn_end()
            self.type_message(text)
            self.terminal.press("Enter", "a", "o", "s", "A")

        return sent

    def no_action(self) -> None:
        """Do nothing; used for dialogs that open without an action of the user."""

    def key_action(self, *keys: str) -> Callable[[], None]:
        """Return a function that presses these keys."""
        return lambda: self.terminal.press(*keys)

    def dialog_matcher(self, kind: type[Any], texts: Texts) -> Callable[[str], bool]:
        """Return a function that finds a dialog, or the card of its question, in the text of the screen."""
        buttons = [label for _, label in getattr(kind, "BUTTONS", ())[:1]]

        def is_there(screen: str) -> bool:
            waits = "click to open" in screen and all(text in screen for text in texts[:1])
            return waits or all(text in screen for text in (*texts, *buttons))

        return is_there

    def wait_for_dialog(self, kind: type[Any], *texts: str) -> str:
        """Wait until the dialog accepts keys, giving it the focus if needed; return the screen."""
        is_there = self.dialog_matcher(kind, texts)

        def heeds(screen: str) -> bool:
            if not is_there(screen):
                return False
            if issubclass(kind, Dialog) and is_unfocused(screen):
                self.terminal.press("F8")
                self.terminal.wait_until(lambda now: not is_unfocused(now), f"{kind.__name__} that was entered")
                return False
            return self._accepts_keys(kind, screen)

        return self.terminal.wait_until(heeds, f"{kind.__name__}: {texts}")

    def _accepts_keys(self, kind: type[Any], screen: str) -> bool:
        return accepts_keys(screen) or not issubclass(kind, Dialog)

    def press_through(self, kind: type[Any], *texts: str, key: str) -> None:
        """Wait for a dialog, and press *key* until the dialog has closed."""
        is_there = self.dialog_matcher(kind, texts)
        self.wait_for_dialog(kind, *texts)
        self.press_until([key], lambda screen: not is_there(screen), f"{kind.__name__} answered")

    def press_until(self, keys: Texts, heard: Callable[[str], bool], what: str) -> str:
        """Press keys until *heard* is true for the screen, repeating them if they came too early; return the screen."""
        for attempt in range(_ATTEMPTS):
            for number, key in enumerate(keys):
                if number:
                    self.terminal.wait_between_keys()
                self.terminal.press(key)
            try:
                seconds = _RETRY_SECONDS if attempt < _ATTEMPTS - 1 else WAIT_SECONDS
                return self.terminal.wait_until(heard, what, seconds)
            except AssertionError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError

    def _open_typing_ahead(
        self, opens: Callable[[], None], keys: Texts, is_there: Callable[[str], bool], what: str
    ) -> float:
        """Open a dialog while pressing keys, and press the keys again when it appears.

        On a busy machine, keys are not pressed faster than they are drawn: nothing else would be done.

        Return the last time at which the dialog had certainly not appeared.
        """
        opens()
        deadline, before = time.monotonic() + WAIT_SECONDS, time.monotonic()
        self.terminal.press(*keys)
        pressed, shown = before, ""
        while True:
            now = time.monotonic()
            screen = self.terminal.screen()
            if is_there(screen):
                break
            assert now < deadline, f"never came: {what}\n{screen}"
            before = now
            if screen != shown or now - pressed > _SLOW_REPEAT_SECONDS:
                self.terminal.press(*keys)
                pressed, shown = now, screen
            time.sleep(_REPEAT_SECONDS)
        if time.monotonic() - before < _GUARD_SECONDS:
            self.terminal.press(*keys)
        return before

    def _wait_after_early_keys(self, kind: type[Any], is_there: Callable[[str], bool], appeared: float) -> bool:
        """Wait until a dialog accepts keys or is gone; return whether it is gone and keys were certainly early.

        *appeared* is a time before the dialog appeared. The program counts from the time at which it reads a key, which
        may be long after the key was pressed on a busy machine. A key was certainly read early only if its effect was
        seen early. Keys are not pressed again, as `wait_until` does after a hint that they came too early.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            screen, now = self.terminal.screen(), time.monotonic()
            if not is_there(screen):
                return now - appeared < _GUARD_SECONDS
            if is_unfocused(screen) or self._accepts_keys(kind, screen):
                return False
            assert now < deadline, f"never accepted keys: {kind.__name__}\n{screen}"
            time.sleep(_POLL_SECONDS)

    def expect_refusal(
        self,
        kind: type[Any],
        opens: Callable[[], None],
        *texts: str,
        ahead: Texts,
        effects: Texts = (),
        answers: Texts = (),
        keys: Texts = ("Escape",),
        leaves: Callable[[str], bool] | None = None,
    ) -> str:
        """Check that a dialog ignores early keys, and that Escape refuses it with exactly these effects and answers.

        *effects* are those recorded by the server, and *answers* those in the audit log. Open the dialog again if the
        machine was so busy that the program may have read the last key too late. Return the dialog's screen.
        """
        is_there = self.dialog_matcher(kind, texts)
        for _ in range(_ATTEMPTS):
            happened, recorded = self.marks
            appeared = self._open_typing_ahead(opens, ahead, is_there, kind.__name__)
            surely = self._wait_after_early_keys(kind, is_there, appeared)
            screen = self.terminal.screen()
            if surely or is_there(screen):
                break
        assert is_there(screen), f"keys typed ahead answered {kind.__name__}\n{screen}"
        screen = self.wait_for_dialog(kind, *texts)
        self.press_until(keys, leaves or (lambda now: not is_there(now)), f"{kind.__name__} refused")
        self.expect_effects(happened, *effects)
        self.expect_answers(recorded, *answers)
        self.refused.add(kind)
        return screen

    def expect_acceptance(
        self,
        kind: type[Any],
        opens: Callable[[], None],
        *texts: str,
        keys: Texts,
        effects: Texts = (),
        answers: Texts = (),
        leaves: Callable[[str], bool] | None = None,
    ) -> str:
        """Accept a dialog by keyboard, check that exactly these effects and answers follow, and return its screen."""
        happened, recorded = self.marks
        opens()
        is_there = self.dialog_matcher(kind, texts)
        screen = self.wait_for_dialog(kind, *texts)
        self.press_until(keys, leaves or (lambda now: not is_there(now)), f"{kind.__name__} agreed to")
        self.expect_effects(happened, *effects)
        self.expect_answers(recorded, *answers)
        self.agreed.add(kind)
        return screen

    def expect_answers(self, mark: int, *answers: str) -> None:
        """Wait until the audit log contains exactly these answers from row *mark* on."""
        self.terminal.wait_until(lambda _: len(self.answers(mark)) >= len(answers), f"answers {answers}")
        assert self.answers(mark) == list(answers), self.answers(mark)


def strip_frames(screen: str) -> str:
    """Return the words on a screen separated by single spaces, without frames."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", screen)
