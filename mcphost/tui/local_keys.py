"""Default keys of actions that belong to an individual screen or to one part of the chat.

The user can change these keys in the same way as the keys of global actions. They are not in
`mcphost.tui.actions`, because the first frame needs them only if the user has changed one of them. The keys of
consent dialogs and forms are not listed, because they are fixed.
"""

from collections.abc import Mapping

from textual.keys import _character_to_key  # pyright: ignore[reportPrivateUsage]

from mcphost.translation import N_

LOCAL_ACTIONS: Mapping[str, str] = {
    "message-steer": "ctrl+s",
    "conversation-previous": "[",
    "conversation-next": "]",
    "conversation-open": "enter,space",
    "conversation-previous-message": "{",
    "conversation-next-message": "}",
    "conversation-copy": "c",
    "conversation-copy-part": "y",
    "conversation-copy-values": "Y",
    "conversation-edit": "e",
    "conversation-background": "b",
    "conversation-page": "o",
    "queue-edit": "enter,space",
    "queue-remove": "x,delete,backspace",
    "attachments-open": "enter,space",
    "attachments-remove": "x,delete,backspace",
    "attachments-refresh": "r",
    "viewer-find": "/,ctrl+f",
    "viewer-next": "n",
    "viewer-copy": "c",
    "viewer-save": "s",
    "list-search": "ctrl+f",
    "servers-tools": "t",
    "servers-restart": "r",
    "servers-stop": "p",
    "servers-diagnose": "i",
    "servers-messages": "m",
    "servers-log": "l",
    "messages-restart": "r",
    "messages-copy": "c",
    "messages-view": "v",
    "messages-send-again": "s",
    "messages-copy-curl": "y",
    "messages-copy-call": "k",
    "messages-save": "w",
    "servers-changes": "c",
    "servers-permissions": "g",
    "servers-folders": "f",
    "servers-sign-in": "s",
    "servers-sign-out": "o",
    "servers-accounts": "a",
    "servers-add": "n",
    "servers-registry": "b",
    "servers-edit": "e",
    "servers-disable": "d",
    "servers-remove": "x",
    "servers-remove-with-data": "X",
    "servers-undo": "u",
    "server-form-scope": "ctrl+o",
    "tools-toggle": "space",
    "tools-pin": "p",
    "tools-permissions": "g",
    "diagnosis-again": "r",
    "resources-attach": "a",
    "resources-preview": "p",
    "resources-watch": "w",
    "resources-save": "s",
    "history-fork": "f",
    "history-rename": "n",
    "history-pin": "p",
    "history-export": "e",
    "history-delete": "x",
    "history-runs": "r",
    "rewind-retry": "r",
    "rewind-fork": "f",
    "tasks-cancel": "x",
    "tasks-background": "b",
    "tasks-copy": "c",
    "models-save": "ctrl+s",
    "models-settings": "ctrl+e",
    "models-add": "ctrl+n",
    "models-favorite": "ctrl+t",
    "models-key": "ctrl+d",
    "models-retry-tools": "ctrl+r",
    "profiles-add": "n",
    "profiles-edit": "e",
    "profiles-remove": "x",
    "context-pin": "p",
    "context-defer": "d",
    "context-auto": "a",
    "instructions-approve": "a",
    "instructions-revoke": "x",
    "accounts-add": "n",
    "accounts-sign-in": "s",
    "accounts-sign-out": "o",
    "folders-add": "a",
    "folders-name": "n",
    "folders-remove": "x",
    "permissions-revoke": "x",
    "audit-verify": "v",
    "audit-older": "o",
    "audit-newer": "n",
    "audit-undo": "u",
    "registry-versions": "v",
    "registry-guide": "l",
    "registry-give-guide": "m",
    "install-form-kind": "ctrl+o",
    "setup-select-all": "ctrl+a",
}
"""The default keys of each action, separated by commas. A name begins with the screen or widget where the keys work."""

FIXED_KEYS_OF_PLACES: Mapping[str, Mapping[str, str]] = {
    "viewer": {"g": N_("scrolls to the top"), "G": N_("scrolls to the end"), "q": N_("leaves the page")},
    "list": {"/": N_("starts a search")},
}
"""Keys of each screen or widget that settings cannot change, in addition to the keys that are fixed everywhere."""

_PLACES = ("server-form", "install-form")
_PLACES_WITHOUT_LIST = {"message", "conversation", "queue", "attachments", "viewer", "setup", *_PLACES}


def default_local_keys(name: str) -> tuple[str, ...]:
    """Return the default keys of the action *name*, or () if there is no such action."""
    return tuple(filter(None, LOCAL_ACTIONS.get(name, "").split(",")))


def describe_fixed_key(name: str, key: str) -> str:
    """Describe the fixed function that *key* has in the part of the UI where the action *name* works.

    Return "" if the key has no fixed function there; only then can the user assign it to the action.
    """
    place = _find_place(name)
    return FIXED_KEYS_OF_PLACES.get(place if place in _PLACES_WITHOUT_LIST else "list", {}).get(key, "")


def work_together(one: str, other: str) -> bool:
    """Return whether two actions can be available at the same time, so that they need different keys."""
    places = {_find_place(one), _find_place(other)}
    return len(places) == 1 or ("list" in places and not places & _PLACES_WITHOUT_LIST)


def _find_place(name: str) -> str:
    return next((place for place in _PLACES if name.startswith(f"{place}-")), name.split("-", 1)[0])


def build_keymap(changes: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return *changes* as a Textual keymap.

    An action without keys is assigned the key name "none", which no terminal sends.
    """
    return {name: ",".join(map(normalize_key, keys)) or "none" for name, keys in changes.items()}


def normalize_key(key: str) -> str:
    """Return Textual's name of a key, such as "left_square_bracket" for "["."""
    return _character_to_key(key) if len(key) == 1 else key
