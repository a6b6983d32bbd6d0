"""A person at the keyboard who meets dialogs: types ahead, refuses by Escape, agrees; and what came of it."""

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
from tests.flows.around_consent.scene import Scene
from tests.terminal.terminal import Terminal, listens, waits_to_be_entered

HOSTILE = str(Path(__file__).parents[1] / "flows" / "around_consent" / "hostile.py")
_HEARD = 2.0
"""Seconds after which a key that did nothing came too early on a busy machine, and is pressed again."""
_YOUNG = 0.15
"""Seconds: a question that was not on the screen so long ago is deaf for sure when a key reaches it."""
_AGAIN = 0.05
_TIMES = 3

Seen = Sequence[str]


class Person:
    """One terminal with the program in it, its peer, and which dialogs were met in which way.

    `refused` are those that keys typed ahead did not answer and Escape refused, `agreed` those with the effect.
    """

    def __init__(self, terminal: Terminal, folder: Path) -> None:
        self.terminal = terminal
        self.scene = Scene(folder, None)  # type: ignore[arg-type]
        self.scene.ledger = folder / "data" / "ledger.db"
        self.refused: set[type] = set()
        self.agreed: set[type] = set()

    # -- what there is around the program
    def peer(self, name: str, *tools: Any, mcphost: dict[str, Any] | None = None, **plan: Any) -> dict[str, Any]:
        """The entry of a server that does what its plan says and writes down what reached it."""
        env = self.scene.env(name, self.scene.plan(name, *tools, **plan))
        return {"command": sys.executable, "args": [HOSTILE], "env": env, "mcphost": mcphost or {}}

    def configured(self, settings: str, **servers: dict[str, Any]) -> None:
        """The person's own config.toml and mcp.json."""
        folder = self.scene.folder / "config"
        folder.mkdir()
        (folder / "config.toml").write_text(settings)
        if servers:
            (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    def starts(self, *flags: str, **servers: dict[str, Any]) -> None:
        """The chat with the demo model and these servers."""
        config = self.scene.folder / "given.json"
        config.write_text(json.dumps({"mcpServers": servers}))
        self.terminal.chat("--model", "demo", "--mcp-config", str(config), *flags)

    def ready(self) -> None:
        """Wait for the servers."""
        self.terminal.wait_for("1/1 server", "F6 history", seconds=30)

    def effects(self, mark: int = 0) -> list[str]:
        """What reached the peers since, but processes: `tool add`, `form`, `refused roots/list`."""
        seen = [one for one in self.scene.seen()[mark:] if one["what"] != "process"]
        return [f"{one['what']} {one['name']}" if one.get("name") else one["what"] for one in seen]

    def comes(self, mark: int, *effects: str) -> None:
        """Wait until exactly this reached the peers."""
        self.terminal.wait_until(lambda _: len(self.effects(mark)) >= len(effects), f"effects {effects}")
        assert sorted(self.effects(mark)) == sorted(effects)

    def answers(self, mark: int) -> list[str]:
        """What a person answered since, as the ledger on the disk has it: `tool deny`."""
        rows = self._rows()[mark:]
        return [f"{row['kind']} {row['decision']}" for row in rows if row["event"] == "answered"]

    def _rows(self) -> list[dict[str, Any]]:
        try:
            return self.scene.rows()
        except sqlite3.OperationalError:  # the file is there, and nothing is in it yet
            return []

    @property
    def marks(self) -> tuple[int, int]:
        """How much happened so far: to the peers, and in the ledger."""
        return len(self.scene.seen()), len(self._rows())

    # -- at the keyboard
    def writes(self, text: str) -> None:
        """Type a message; nothing is sent yet."""
        # A row at a time; right after Escape it is read as another key.
        while "Type a message" not in (screen := self.terminal.screen()):
            self.terminal.press("C-u")
            with suppress(AssertionError):
                self.terminal.wait_until(lambda now, was=screen: now != was, "a row less", seconds=0.5)
        self.terminal.type(text)
        self.terminal.wait_until(lambda screen: text.strip() in map(str.strip, screen.splitlines()), text)

    def sends(self, text: str) -> Callable[[], None]:
        """To be done later: that message, with letters typed right behind it."""

        def sent() -> None:
            self.terminal.wait_for_turn_end()
            self.writes(text)
            self.terminal.press("Enter", "a", "o", "s", "A")

        return sent

    def nothing(self) -> None:
        """What is to be done for a dialog that comes by itself."""

    def presses(self, *keys: str) -> Callable[[], None]:
        """To be done later."""
        return lambda: self.terminal.press(*keys)

    def shown(self, kind: type[Any], texts: Seen) -> Callable[[str], bool]:
        """Whether a screen has that dialog: what it says, and the button that refuses; or what waits for it beside."""
        buttons = [label for _, label in getattr(kind, "BUTTONS", ())[:1]]

        def is_there(screen: str) -> bool:
            waits = "click enters it" in screen and all(text in screen for text in texts[:1])
            return waits or all(text in screen for text in (*texts, *buttons))

        return is_there

    def heeded(self, kind: type[Any], *texts: str) -> str:
        """Wait for that dialog, and for the moment it hears; the screen then."""
        is_there = self.shown(kind, texts)

        def heeds(screen: str) -> bool:
            if not is_there(screen):
                return False
            if issubclass(kind, Dialog) and waits_to_be_entered(screen):
                self.terminal.press("F8")
                self.terminal.wait_until(lambda now: not waits_to_be_entered(now), f"{kind.__name__} that was entered")
                return False
            return self._heeds(kind, screen)

        return self.terminal.wait_until(heeds, f"{kind.__name__}: {texts}", seconds=30)

    def _heeds(self, kind: type[Any], screen: str) -> bool:
        return listens(screen) or not issubclass(kind, Dialog)

    def passes(self, kind: type[Any], *texts: str, key: str) -> None:
        """Go on from that dialog by a key, on the way to another one."""
        is_there = self.shown(kind, texts)
        self.heeded(kind, *texts)
        self.until_heard([key], lambda screen: not is_there(screen), f"{kind.__name__} answered")

    def until_heard(self, keys: Seen, heard: Callable[[str], bool], what: str) -> str:
        """Press keys; again when nothing comes of it, because the machine was so slow that they were too early."""
        for attempt in range(_TIMES):
            for number, key in enumerate(keys):
                if number:
                    self.terminal.pace()
                self.terminal.press(key)
            try:
                return self.terminal.wait_until(heard, what, seconds=_HEARD if attempt < _TIMES - 1 else 15)
            except AssertionError:
                if attempt == _TIMES - 1:
                    raise
        raise AssertionError

    def _ahead(self, opens: Callable[[], None], keys: Seen, is_there: Callable[[str], bool], what: str) -> bool:
        """Open it, with these keys pressed all the time until it is there and once more right then.

        Whether all of them surely came before it heard.
        """
        opens()
        deadline, before = time.monotonic() + 30, time.monotonic()
        self.terminal.press(*keys)
        while True:
            now = time.monotonic()
            screen = self.terminal.screen()
            if is_there(screen):
                break
            assert now < deadline, f"never came: {what}\n{screen}"
            before = now
            self.terminal.press(*keys)
            time.sleep(_AGAIN)
        if time.monotonic() - before > _YOUNG:
            return False
        self.terminal.press(*keys)
        return time.monotonic() - before < _YOUNG

    def refuses(
        self,
        kind: type[Any],
        opens: Callable[[], None],
        *texts: str,
        ahead: Seen,
        effects: Seen = (),
        answers: Seen = (),
        keys: Seen = ("Escape",),
        leaves: Callable[[str], bool] | None = None,
    ) -> str:
        """Keys typed ahead do not answer it, and Escape refuses: exactly `effects`, and `answers` in the ledger.

        It is opened anew where this machine was so busy that the last key may have come when it heard already.
        """
        is_there = self.shown(kind, texts)
        for _ in range(_TIMES):
            happened, recorded = self.marks
            surely = self._ahead(opens, ahead, is_there, kind.__name__)
            screen = self.terminal.wait_until(
                lambda now: waits_to_be_entered(now) or self._heeds(kind, now) or not is_there(now),
                f"{kind.__name__} that hears",
            )
            if surely or is_there(screen):
                break
        assert is_there(screen), f"keys typed ahead answered {kind.__name__}\n{screen}"
        screen = self.heeded(kind, *texts)
        self.until_heard(keys, leaves or (lambda now: not is_there(now)), f"{kind.__name__} refused")
        self.comes(happened, *effects)
        self.recorded(recorded, *answers)
        self.refused.add(kind)
        return screen

    def agrees(
        self,
        kind: type[Any],
        opens: Callable[[], None],
        *texts: str,
        keys: Seen,
        effects: Seen = (),
        answers: Seen = (),
        leaves: Callable[[str], bool] | None = None,
    ) -> str:
        """By keyboard alone it is agreed to, with exactly these effects; the screen of the dialog."""
        happened, recorded = self.marks
        opens()
        is_there = self.shown(kind, texts)
        screen = self.heeded(kind, *texts)
        self.until_heard(keys, leaves or (lambda now: not is_there(now)), f"{kind.__name__} agreed to")
        self.comes(happened, *effects)
        self.recorded(recorded, *answers)
        self.agreed.add(kind)
        return screen

    def recorded(self, mark: int, *answers: str) -> None:
        """Wait until exactly these answers are in the ledger."""
        self.terminal.wait_until(lambda _: len(self.answers(mark)) >= len(answers), f"answers {answers}")
        assert self.answers(mark) == list(answers), self.answers(mark)


def plain(screen: str) -> str:
    """The words of a screen, without frames and line ends."""
    return re.sub(r"[\s│╭╮╰╯─]+", " ", screen)
