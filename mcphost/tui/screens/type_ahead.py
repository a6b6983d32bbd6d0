"""Type-ahead for list screens: single letters run commands, and typed words go to the search line."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from textual import events
from textual.timer import Timer
from textual.widgets import Input, OptionList

from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screens.list_screen import ListScreen

WORD_SECONDS = 0.4
"""Seconds without another key after which a letter is a command and not the beginning of a word."""


class TypeAheadListScreen(ListScreen):
    """List screen on which single letters run commands, and typed words go to the search line.

    A letter runs its command once the user pauses, or presses a key that enters no text. These constants of the class
    contain the default letters; the user can assign other keys to the commands.

    `KEY_ROWS` contains the keys in the key bar and their actions; `MORE_COMMANDS` maps additional letters to
    actions.

    `REPEATED_KEYS` contains the letters whose commands must be confirmed by a second press. If a different letter
    follows the first press without a pause, both letters are entered in the search line.

    `INSTANT_KEYS` contains the letters whose commands only open another screen, which Esc closes again. These
    commands run without waiting for a pause, unless the letter continues a word that the user is typing.
    """

    REPEATED_KEYS: ClassVar[frozenset[str]] = frozenset()
    INSTANT_KEYS: ClassVar[frozenset[str]] = frozenset()
    MORE_COMMANDS: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__()
        self._typed = ""
        self._started_count = 0  # how many of the typed letters have run their command
        self._word_timer: Timer | None = None

    async def process_typed_key(self, event: events.Key) -> bool:
        """Handle a key before it reaches the list; return False to let the list handle it as usual."""
        is_text = event.is_printable and "+" not in event.key  # Textual treats Alt+letter as text
        text = event.character if is_text and event.character else ""
        if text == "/" and not self._typed:
            return False  # it begins a search, as in other programs, and is not a part of the text to find
        if not isinstance(self.focused, OptionList):
            # The details pane has letters of its own; only those that change something wait here as well.
            is_delayed = text in self._commands and not self._is_instant(text)
            if isinstance(self.focused, Input) or not (is_delayed or self._typed):
                return False
        if self._word_timer is not None:
            self._word_timer.stop()
        if text and (text != " " or self._typed):
            if self._is_instant(text) and not self._typed:
                await self.app.run_action(self._commands[text], self)  # pyright: ignore[reportUnknownMemberType]
            else:
                self._add_letter(text)
            return True
        if event.key == "backspace" and self._typed:
            self._forget_letters()
            return True
        await self._run_command()
        self._forget_letters()
        return False

    def _add_letter(self, text: str) -> None:
        if self._started_count and text in self._commands and text != self._typed[0]:
            self._forget_letters()  # another command instead of the second press
        self._typed += text
        presses = 2 if self._is_repeated(text) else 1
        if text in self._commands and self._typed == text * len(self._typed) and len(self._typed) <= presses:
            self._word_timer = self.set_timer(WORD_SECONDS, self._handle_pause)
            return
        search = self.query_one("#search", Input)
        search.display = True
        search.cursor_position = len(search.value)
        search.insert_text_at_cursor(self._typed)
        search.select_on_focus = False  # or the next letter would replace the first ones
        self.set_focus(search)
        search.call_later(setattr, search, "select_on_focus", True)
        self._forget_letters()

    def _forget_letters(self) -> None:
        self._typed, self._started_count = "", 0

    def _handle_pause(self) -> None:
        """Run the command of the typed letter, unless the app has already received further letters."""
        self.app.call_later(self._run_unless_typing, self._typed)  # pyright: ignore[reportUnknownMemberType]

    async def _run_unless_typing(self, typed: str) -> None:
        if typed == self._typed and self.is_current:
            await self._run_command()

    async def _run_command(self) -> None:
        """Run the command of each letter that was typed since the last call, usually a single letter.

        There are two letters if the user has already confirmed the command: for "xx", the command of x is run twice.
        """
        letters = self._typed[self._started_count :]
        self._started_count = len(self._typed)
        for letter in letters:
            await self.app.run_action(self._commands[letter], self)  # pyright: ignore[reportUnknownMemberType]
        presses = 2 if self._is_repeated(self._typed[:1]) else 1
        if len(self._typed) >= presses:
            self._forget_letters()

    @property
    def _commands(self) -> dict[str, str]:
        """The actions of the letter keys, keyed by the letter that is assigned to them, by default or by the user."""
        rows = (*self.KEY_ROWS, *((key, "", action) for key, action in self.MORE_COMMANDS.items()))
        resolved = keys_in_use(self).resolve_rows(rows, self._bindings)
        return {key: action for keys, (_key, _label, action) in resolved for key in keys if len(key) == 1}

    def _is_instant(self, letter: str) -> bool:
        return self._find_default_letter(letter) in self.INSTANT_KEYS

    def _is_repeated(self, letter: str) -> bool:
        return self._find_default_letter(letter) in self.REPEATED_KEYS

    def _find_default_letter(self, letter: str) -> str:
        """Return the default letter of the command that *letter* runs, or "" if it runs none."""
        action = self._commands.get(letter, "")
        defaults = (*((key, action) for key, _label, action in self.KEY_ROWS), *self.MORE_COMMANDS.items())
        return next((key for key, one in defaults if one == action and len(key) == 1), "")
