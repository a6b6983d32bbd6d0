"""The key bindings in use: the default keys of all actions, with the user's changes.

The changes are in the table [keys] in config.toml. Global actions are defined in `mcphost.tui.actions`. Actions
specific to individual screens and widgets are defined in `mcphost.tui.local_keys`; their names contain a hyphen.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcphost.translation import N_, _, join_list, use_hints
from mcphost.tui.actions import ACTIONS, Action
from mcphost.tui.screen_text import clean_line

if TYPE_CHECKING:
    from textual.binding import BindingsMap

KEPT_KEYS = frozenset({"answer", "auto_approval"})
"""Actions that must always have a key: to answer questions, and to stop automatic approval."""

FIXED_KEYS: Mapping[str, str] = {
    "ctrl+c": N_("copies and quits"),
    "ctrl+s": N_("confirms forms and questions"),
    "ctrl+v": N_("pastes"),
    "ctrl+z": N_("undoes"),
    "ctrl+j": N_("starts a new line"),
    "ctrl+m": N_("stands for Enter in terminals"),
    "ctrl+i": N_("stands for Tab in terminals"),
    "ctrl+h": N_("stands for Backspace in terminals"),
    "escape": N_("stops and leaves"),
}
"""Keys that settings cannot change, and what each does."""

QUESTION_KEYS = frozenset({
    "ctrl+a", "ctrl+b", "ctrl+d", "ctrl+e", "ctrl+f", "ctrl+g", "ctrl+n", "ctrl+o", "ctrl+r", "ctrl+t",
})  # fmt: skip
"""Keys of questions and forms. An action that also works while one of these is open must not use them."""

_MODIFIERS = ("alt", "ctrl", "hyper", "meta", "shift", "super")
_FUNCTION_KEY = re.compile(r"f([1-9]|1\d|2[0-4])")
_MOVING_KEYS = {"up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete"}
_OTHER_KEYS = {*_MOVING_KEYS, "enter", "tab", "space", "backspace", "escape"}
_SHOWN_NAMES = {"escape": "esc", "comma": ","}
_SENTENCE_NAMES = {"pageup": "PageUp", "pagedown": "PageDown"}
_PLACEHOLDER = re.compile(r"\{([a-z_-]+)\}")
_KITTY_ONLY = N_("arrives only from terminals with the Kitty keyboard protocol")
_KITTY_TERMS = {"xterm-kitty", "xterm-ghostty", "foot", "foot-extra", "alacritty"}
_KITTY_PROGRAMS = {"ghostty", "iTerm.app"}
_MAX_SHOWN = 60
_MAX_ACTIONS, _MAX_KEYS_OF_ACTION, _MAX_LENGTH = 200, 5, 40
"""The same limits as in `mcphost.config`."""


HOST_HINTS = (
    N_("Press {stop} to stop it first."),
    N_("Start it: {servers}, then {servers-restart}."),
    N_("Enable it: {servers}, then {servers-disable}."),
    N_("Review them: /servers, then {servers-changes}."),
    N_("See what is wrong: mcphost audit verify, or {audit}, then {audit-verify}."),
    N_("To try them again: {models-retry-tools} in /models, or: mcphost models --retry-tools"),
)
"""Sentences of lower layers, which contain the default keys there, because those layers do not know the keys in use."""

KeyRow = tuple[str, str, str]
"""A row of a key bar: the key as it is shown, its label, and the name of its action as Textual expects it."""


class KeyTable:
    """Immutable table of each action's keys, as named by Textual, with methods that format keys for display."""

    def __init__(
        self, keys: Mapping[str, tuple[str, ...]], local_changes: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._keys = dict(keys)
        self.local_changes = dict(local_changes or {})
        """The keys of the actions of single screens and widgets that differ from their default keys."""

        self._actions = {key: name for name, keys in self._keys.items() for key in keys}

    def keys_of(self, name: str) -> tuple[str, ...]:
        """Return the keys of the action *name*, or () if it has none."""
        if "-" not in name or name in self.local_changes:
            return self.local_changes.get(name) or self._keys.get(name, ())
        from mcphost.tui.local_keys import default_local_keys

        return default_local_keys(name)

    def build_bindings(self) -> "BindingsMap":
        """Return the bindings of all global actions, which replace Textual's default bindings of the app."""
        from textual.binding import Binding, BindingsMap

        priority = {action.name for action in ACTIONS if action.priority} | {"palette"}
        bindings = [Binding("ctrl+c", "interrupt", show=False, priority=True)]
        for key, name in self.items():
            # Textual treats Alt with a letter as printable; without priority, a text field would insert the letter.
            is_first = name in priority or key.startswith("alt+")
            action = "command_palette" if name == "palette" else name
            bindings.append(Binding(key, action, show=False, priority=is_first))
        return BindingsMap(bindings)

    def override_bindings(self, bindings: "BindingsMap") -> "BindingsMap":
        """Return a copy of a text field's bindings in which the keys of global actions take precedence.

        Escape is an exception; it keeps its function in the text field.
        """
        from textual.binding import Binding

        changed = bindings.copy()
        for key, name in self.items():
            if key in bindings.key_to_bindings and key != "escape":
                changed.key_to_bindings[key] = [Binding(key, f"app.{name}", show=False)]
        return changed

    def build_keymap(self) -> dict[str, str]:
        """Return the key bindings that the user changed for individual screens and widgets, as a Textual keymap."""
        if not self.local_changes:
            return {}
        from mcphost.tui.local_keys import build_keymap

        return build_keymap(self.local_changes)

    def action_of(self, key: str) -> str:
        """Return the name of the global action that a key runs, or "" if it runs none."""
        return self._actions.get(key, "")

    def items(self) -> Iterable[tuple[str, str]]:
        """Return all (key, action name) pairs of global actions."""
        return self._actions.items()

    def short(self, name: str) -> str:
        """Return an action's first key as written in key bars, such as "ctrl+p" or "esc".

        If the action has no key, return its slash command, or "" if it has no slash command either.
        """
        keys = self.keys_of(name)
        return format_key(keys[0]) if keys else _slash(name)

    def long(self, name: str) -> str:
        """Return an action's first key as written in sentences, such as "Ctrl+P".

        If the action has no key, return its slash command, or "" if it has no slash command either.
        """
        keys = self.keys_of(name)
        return format_key(keys[0], in_sentence=True) if keys else _slash(name)

    def fill(self, text: str, /, *, in_sentence: bool = True, **values: object) -> str:
        """Replace each action name in braces with the action's key, as in "{help} shows all keys".

        If an action has no key, its name is replaced with its slash command or, for an action of an individual screen,
        with a dash. Set *in_sentence* to false for hints separated by " · ": keys are then written in lower case, and a
        hint for such an action without a key is omitted.

        If there are *values*, they replace other names in braces, as in `str.format`. Do not format the result instead,
        because it may contain a brace that is the name of a key.
        """
        form = self.long if in_sentence else self.short
        if not in_sentence and not all(self.local_changes.values()):
            text = self._leave_out_removed(text)
        if not values:
            return _PLACEHOLDER.sub(lambda match: form(match[1]) or ("–" if "-" in match[1] else match[0]), text)
        names = {match[1] for match in _PLACEHOLDER.finditer(text)} - values.keys()
        keys = {name: form(name) or ("–" if "-" in name else f"{{{name}}}") for name in names}
        return text.format(**keys, **values)

    def _leave_out_removed(self, hints: str) -> str:
        """Remove the hints for actions whose keys the user has removed, and return the remaining hints.

        *hints* is a string of hints separated by " · ". A hint that names several actions stays if any of them has a
        key; only the names of the others are removed from it.
        """
        left: list[str] = []
        for hint in hints.split(" · "):
            names = [match[1] for match in _PLACEHOLDER.finditer(hint)]
            removed = [name for name in names if self.local_changes.get(name) == ()]
            if not removed:
                left.append(hint)
            elif any(self.short(name) for name in names):
                kept = hint
                for name in removed:
                    kept = kept.replace(f"{{{name}}}", "")
                left.append(" ".join(kept.split()))
        return " · ".join(left)

    def names_any(self, text: str) -> bool:
        """Return whether *text* contains the name, in braces, of any action that has a key."""
        return any(self.keys_of(match[1]) for match in _PLACEHOLDER.finditer(text))

    def use_in_hints(self) -> None:
        """Show the keys of this table in messages from other packages.

        These messages name the default keys. `translate_sentence` replaces them with the keys of this table.
        """
        is_default = self._keys == DEFAULT_KEYS._keys and not self.local_changes
        use_hints({} if is_default else {DEFAULT_KEYS.fill(one): one for one in HOST_HINTS}, self.fill)

    def resolve_rows(self, rows: Iterable[KeyRow], bindings: "BindingsMap") -> Iterator[tuple[tuple[str, ...], KeyRow]]:
        """Yield the keys in use, and the row to show, for each of a screen's key bar *rows*.

        If the user has changed the keys, the row to show names the first of the new keys. A row is omitted if the user
        has removed its keys. *bindings* are the screen's bindings.
        """
        names = {one.action: one.id for _key, one in bindings if one.id in self.local_changes}
        for row in rows:
            name = names.get(row[2]) or names.get(row[2].removeprefix("screen."))
            keys = (row[0],) if name is None else self.local_changes[name]
            if keys:
                yield keys, row if name is None else (format_key(keys[0]), row[1], row[2])

    def footer(self, *, can_stop: bool) -> tuple[tuple[str, str, str], ...]:
        """Return (key, label, action name) tuples for the key bar below the chat; omit actions without a key.

        The action "stop" is included only if *can_stop* is true.
        """
        shown = (
            one for one in ACTIONS if one.is_in_footer and self.keys_of(one.name) and (can_stop or one.name != "stop")
        )
        return tuple((self.short(one.name), one.label, one.name) for one in shown)


def format_key(key: str, *, in_sentence: bool = False) -> str:
    """Return a key as it is shown to the user.

    By default, this is how key bars show it, for example "ctrl+p", "F1" or "esc". If *in_sentence* is true, it is
    written as in a sentence, such as "Ctrl+P". A single character is not changed, because "x" and "X" are different
    keys.
    """
    if len(key) == 1:
        return key
    *modifiers, name = key.split("+")
    name = name.upper() if _FUNCTION_KEY.fullmatch(name) else _SHOWN_NAMES.get(name, name)
    if not in_sentence:
        return "+".join([*modifiers, name])
    return "+".join(_SENTENCE_NAMES.get(part, part.capitalize()) for part in (*modifiers, name))


def _slash(name: str) -> str:
    action = next((one for one in ACTIONS if one.name == name), None)
    return f"/{action.slash}" if action is not None and action.slash else ""


DEFAULT_KEYS = KeyTable({one.name: one.default_keys for one in ACTIONS if one.keys})


def keys_in_use(node: Any) -> KeyTable:
    """Return the key table of the app that *node* belongs to, or the default table if it has no app."""
    try:
        return getattr(node.app, "key_table", DEFAULT_KEYS)
    except RuntimeError:  # there is no app
        return DEFAULT_KEYS


def fill_keys(node: Any, text: str, /, *, in_sentence: bool = True, **values: object) -> str:
    """Replace action names in braces with the keys in use in the app of *node*; see `KeyTable.fill`."""
    return keys_in_use(node).fill(text, in_sentence=in_sentence, **values)


class _Key(NamedTuple):
    """A key from the settings.

    - `key`: Textual's name of the key.
    - `fault`: why the key cannot be used, or "" if it can.
    - `warning`: which terminals cannot send the key, or "" if all common terminals can.
    """

    key: str
    fault: str = ""
    warning: str = ""


def _read_key(text: str) -> _Key:
    """Convert a key such as "Ctrl+K" to Textual's name for it, here "ctrl+k".

    The result has a `fault` if the key cannot be bound, and a `warning` if some terminals cannot send it.
    """
    *given, name = text.strip().lower().split("+")
    modifiers = sorted(set(given))
    if not name or not set(modifiers) <= set(_MODIFIERS):
        return _Key("", _('is not a key; write "ctrl+k", "f6" or "alt+x"'))
    key = "+".join([*modifiers, name])
    function = _FUNCTION_KEY.fullmatch(name)
    if not function and len(name) != 1 and name not in _OTHER_KEYS:
        return _Key("", _('is not a key; write "ctrl+k", "f6" or "alt+x"'))
    if key in FIXED_KEYS:
        return _Key(key, _("always {fixed_keys}; choose another key").format(fixed_keys=_(FIXED_KEYS[key])))
    if not function and not set(modifiers) - {"shift"}:
        return _Key(key, _("types text or moves the cursor; add ctrl or alt, or use a function key"))
    return _Key(key, warning=_describe_terminals(modifiers, name, is_function=bool(function)))


def _describe_terminals(modifiers: Sequence[str], name: str, *, is_function: bool) -> str:
    """Return a phrase that names terminals that cannot send this key, or "" if all common terminals can.

    *name* is the key without its *modifiers*. *is_function* is true for function keys such as F5.
    """
    if is_function and (int(name[1:]) > 12 or modifiers):
        return _("is missing on many keyboards and terminals")
    if is_function:
        return _("switches many terminals to full screen, and then does not reach mcphost") if name == "f11" else ""
    plain_letter = len(name) == 1 and "a" <= name <= "z"
    is_known = (
        (modifiers == ["ctrl"] and (plain_letter or name in _MOVING_KEYS))
        or (modifiers == ["alt"] and (len(name) == 1 or name in _MOVING_KEYS))
        or (modifiers == ["alt", "ctrl"] and plain_letter)
    )
    return "" if is_known else _KITTY_ONLY


def read_key_settings(table: object) -> dict[str, tuple[str, ...]]:
    """Return the valid entries of a [keys] table; invalid entries are reported by `mcphost.config`."""
    wanted: dict[str, tuple[str, ...]] = {}
    for action, value in islice(cast("dict[str, Any]", table).items() if isinstance(table, dict) else (), _MAX_ACTIONS):
        keys = cast("list[Any]", value if isinstance(value, list) else [value])
        if len(keys) <= _MAX_KEYS_OF_ACTION and all(isinstance(key, str) and len(key) <= _MAX_LENGTH for key in keys):
            wanted[action] = tuple(keys)
    return wanted


class KeyProblem(NamedTuple):
    """A problem with an entry of the [keys] table, and how to fix it.

    `entry` is the name of the action as the user wrote it.
    """

    entry: str
    text: str


def has_kitty_keys(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal is known to use the Kitty keyboard protocol by default.

    Return False inside tmux or screen.
    """
    if environ.get("TMUX") or environ.get("STY"):
        return False
    return environ.get("TERM", "") in _KITTY_TERMS or environ.get("TERM_PROGRAM", "") in _KITTY_PROGRAMS


def build_key_table(
    wanted: Mapping[str, Sequence[str]], *, kitty: bool = False
) -> tuple[KeyTable, tuple[KeyProblem, ...]]:
    """Return the table of the default keys with the user's changes, and the problems with these changes.

    *wanted* maps actions, given by name or slash command, to their new keys; an empty list removes all keys of an
    action. The names of screen-specific actions contain a hyphen. *kitty* is true if the terminal supports the Kitty
    keyboard protocol.

    An invalid key is skipped. If a new key is the default key of another action, that action loses the key. An action
    in KEPT_KEYS always keeps at least one key.
    """
    table: dict[str, tuple[str, ...]] = {one.name: one.default_keys for one in ACTIONS}
    problems: list[KeyProblem] = []
    chosen: dict[str, str] = {}
    entries: dict[str, str] = {}
    local_wanted: dict[str, Sequence[str]] = {}
    for word, texts in wanted.items():
        action = _find_action(word)
        if action is None and _is_local(word):
            local_wanted[word] = texts
            continue
        if action is None:
            problems.append(
                KeyProblem(
                    word,
                    _('"{word}" is not an action; {suggest}').format(
                        word=clean_line(word, _MAX_SHOWN), suggest=_suggest(word)
                    ),
                )
            )
            continue
        if action.name in entries:
            first = entries[action.name]
            problems.append(
                KeyProblem(
                    word,
                    _('"{word}" is the same action as "{first}"; write all its keys there.').format(
                        word=word, first=first
                    ),
                )
            )
            continue
        entries[action.name] = word
        keys, notes = _accept_all(action, texts, chosen, kitty=kitty)
        if (texts and not keys) or (not keys and action.name in KEPT_KEYS):
            notes.append(_describe_kept(action))
        else:
            chosen.update(dict.fromkeys(keys, action.name))
            table[action.name] = (*keys, *(("escape",) if action.name == "stop" else ()))
        if notes:
            problems.append(KeyProblem(word, f'"{word}": {"; ".join(notes)}.'))
    problems += _move_taken_keys(table, chosen, entries)
    keys_left = {name: keys for name, keys in table.items() if keys}
    local = _change_local_keys(local_wanted, KeyTable(keys_left), problems, kitty=kitty) if local_wanted else {}
    changed = KeyTable(keys_left, local)
    return changed, (*problems, *_find_shared_keys(changed, chosen, entries))


def _find_shared_keys(table: KeyTable, chosen: Mapping[str, str], entries: Mapping[str, str]) -> Iterator[KeyProblem]:
    """Yield a problem for each new key of a global action that some screens use for another action.

    *chosen* maps each key from the settings to the name of its action, and *entries* maps the name of each such action
    to the name that the user wrote in the settings. Only QUESTION_KEYS can be shared in this way, so nothing is yielded
    if *chosen* contains none of them.
    """
    for key, name in chosen.items() if QUESTION_KEYS & chosen.keys() else ():
        from mcphost.tui.local_keys import LOCAL_ACTIONS

        owners = [one for one in LOCAL_ACTIONS if key in table.keys_of(one)]
        if owners and table.action_of(key) == name and key not in DEFAULT_KEYS.keys_of(name):
            text = _(
                '"{word}": {key} does not work on pages that use it for {owners}. Choose another key, or change theirs.'
            )
            said = text.format(word=entries[name], key=key, owners=join_list(f'"{one}"' for one in owners))
            yield KeyProblem(entries[name], said)


def _describe_kept(action: Action) -> str:
    """Describe how the user can still invoke *action* if none of its configured keys can be used.

    The result is a phrase that names the action's default key, its slash command or the command palette.
    """
    if action.default_keys:
        return _("its default key {long} stays in use").format(long=DEFAULT_KEYS.long(action.name))
    return _("it is still reached with {way}").format(way=_slash(action.name) or _("the command palette"))


def _is_local(word: str) -> bool:
    from mcphost.tui.local_keys import LOCAL_ACTIONS

    return word in LOCAL_ACTIONS


def _change_local_keys(
    wanted: Mapping[str, Sequence[str]], table: KeyTable, problems: list[KeyProblem], *, kitty: bool
) -> dict[str, tuple[str, ...]]:
    """Return the customized keys of screen-specific actions; add problems with them to *problems*.

    *table* contains the keys of the global actions, which cannot be assigned to other actions. If a new key is the
    default key of another action that is available at the same time, that action loses the key. *kitty* is true if the
    terminal supports the Kitty keyboard protocol.
    """
    from mcphost.tui.local_keys import LOCAL_ACTIONS, default_local_keys, describe_fixed_key, work_together

    changes: dict[str, tuple[str, ...]] = {}
    for name, texts in wanted.items():
        keys: list[str] = []
        notes: list[str] = []
        default = default_local_keys(name)
        for text in texts:
            key, fault, warning = _read_local_key(text, default)
            taken = next((one for one, its in changes.items() if key in its and work_together(one, name)), "")
            taken = taken or ("" if key in default else table.action_of(key))
            if not fault and (fixed := describe_fixed_key(name, key)):
                fault = _("always {fixed_keys}; choose another key").format(fixed_keys=_(fixed))
            if not fault and taken:
                fault = _('is already assigned to "{chosen}"; choose another key').format(chosen=taken)
            if fault or (warning and not (kitty and warning is _KITTY_ONLY)):
                notes.append(f"{clean_line(text, _MAX_SHOWN)} {fault or _(warning)}")
            if not fault:
                keys.append(key)
        if texts and not keys:
            notes.append(_("its default key {long} stays in use").format(long=DEFAULT_KEYS.long(name)))
        else:
            changes[name] = tuple(keys)
        if notes:
            problems.append(KeyProblem(name, f'"{name}": {"; ".join(notes)}.'))
    for name in (one for one in LOCAL_ACTIONS if one not in wanted or one not in changes):
        default = default_local_keys(name)
        takers = {key: one for one, its in changes.items() for key in its if work_together(one, name)}
        if lost := [key for key in default if key in takers]:
            changes[name] = left = tuple(key for key in default if key not in takers)
            way = join_list(left) or _("no key")
            problems.append(_describe_lost_keys(name, lost, way, takers[lost[0]]))
    return changes


def _describe_lost_keys(name: str, lost: Sequence[str], way: str, taker: str) -> KeyProblem:
    """Return the problem that the action *name* has lost its default keys *lost* to another action.

    *taker* is the settings entry to which these keys are now assigned. *way* describes how the user can still invoke
    *name*, such as by another key or its slash command.
    """
    text = _(
        '{lost} is now assigned to "{taker}", which leaves "{word}" with {way}. Give "{word}" another key, or write '
        "{word} = [] for none."
    )
    return KeyProblem(taker, text.format(lost=join_list(lost), taker=taker, word=name, way=way))


def _read_local_key(text: str, default: Sequence[str]) -> _Key:
    """Convert a key of a screen-specific action to Textual's name for it.

    Unlike the key of a global action, it can be a character such as "x". However, a character is not accepted if all
    *default* keys have a modifier such as ctrl, because the action then also works in text fields.
    """
    key = text.strip()
    if len(key) == 1 and key.isprintable() and not all("+" in one for one in default):
        return _Key(key)
    if key.lower() in default:
        return _Key(key.lower())
    return _read_key(text)


def _find_action(word: str) -> Action | None:
    return next((one for one in ACTIONS if word in (one.name, *filter(None, (one.slash,)))), None)


def _suggest(word: str) -> str:
    from difflib import get_close_matches

    from mcphost.tui.local_keys import LOCAL_ACTIONS

    near = get_close_matches(word[:_MAX_SHOWN], [*(one.slash or one.name for one in ACTIONS), *LOCAL_ACTIONS], 1)
    return _('did you mean "{near}"?').format(near=near[0]) if near else _("/help lists them.")


def _accept_all(
    action: Action, texts: Sequence[str], chosen: Mapping[str, str], *, kitty: bool
) -> tuple[list[str], list[str]]:
    """Return the keys in *texts* that can be assigned to *action*, and messages about problems with them.

    *chosen* contains the keys that the user has already assigned, each with the name of its action. *kitty* is true if
    the terminal supports the Kitty keyboard protocol.
    """
    keys: list[str] = []
    notes: list[str] = [] if texts or action.name not in KEPT_KEYS else [_("it must have a key")]
    for text in texts:
        key, fault, warning = _read_key(text)
        if not fault and action.priority and key in QUESTION_KEYS:
            fault = _("belongs to questions, where this action works as well; choose another key")
        if not fault and chosen.get(key, action.name) != action.name:
            fault = _('is already assigned to "{chosen}"; choose another key').format(chosen=chosen[key])
        if fault or (warning and not (kitty and warning is _KITTY_ONLY)):
            notes.append(f"{clean_line(text, _MAX_SHOWN)} {fault or _(warning)}")
        if not fault:
            keys.append(key)
    return keys, notes


def _move_taken_keys(
    table: dict[str, tuple[str, ...]], chosen: Mapping[str, str], entries: Mapping[str, str]
) -> Iterator[KeyProblem]:
    """Remove default keys from actions if the user has assigned these keys to other actions.

    Yields a problem for each affected action. If an action in KEPT_KEYS would lose its last key, it keeps the key, and
    the new assignment is removed instead.

    *table* maps each action's name to its keys and is modified. *chosen* maps each key from the settings to the name of
    its new action. *entries* maps the name of each such action to the entry's name as the user wrote it.
    """
    for name, keys in list(table.items()):
        lost = [key for key in keys if chosen.get(key, name) != name]
        left = tuple(key for key in keys if key not in lost)
        if not lost:
            continue
        taker = chosen[lost[0]]
        word = _slash(name).removeprefix("/") or name
        if not left and name in KEPT_KEYS:
            table[taker] = tuple(key for key in table[taker] if key not in lost)
            text = _('"{word}" must have a key, so it keeps {lost}. Give "{word}" another key first.').format(
                word=word, lost=lost[0]
            )
            yield KeyProblem(entries[taker], text)
        else:
            table[name] = left
            way = join_list(left) or _slash(name) or _("the command palette")
            yield _describe_lost_keys(word, lost, way, entries[taker])
