"""What in the command of a server deserves a second look before it is allowed to run."""

import os
import re
from collections.abc import Sequence

_SPLIT = re.compile(r"[\s;&|()<>`'\"{}]+")
_PIECES = re.compile(r"[=:,]")
_ADMIN = frozenset({"sudo", "doas", "pkexec", "su", "run0"})
_FETCH = frozenset({"curl", "wget"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_KEYS = frozenset({".ssh", ".gnupg", ".aws", ".kube", "id_rsa", "id_ed25519", "id_ecdsa"})


def dangers(command: Sequence[str]) -> tuple[str, ...]:
    """Sentences that continue "It …", one for each kind of danger that the words of a command show.

    A list of warnings and no guard: what it does not know may be as bad. The time is linear in the length.
    """
    words = [part for word in command for part in _SPLIT.split(word) if part]
    names = [word.rsplit("/", 1)[-1] for word in words]
    found: list[str] = []
    if admin := next((name for name in names if name in _ADMIN), ""):
        found.append(f"asks for the rights of the administrator ({admin}).")
    if any(name == "rm" and _removes_trees(words[at + 1 : at + 11]) for at, name in enumerate(names)):
        found.append("removes files without asking (rm).")
    if _FETCH.intersection(names) and _SHELLS.intersection(names):
        found.append("runs a script straight from the network.")
    if any(not _KEYS.isdisjoint(word.split("/")) for text in words for word in _PIECES.split(text)):
        found.append("names a place of secret keys.")
    if any(_is_home(word) for text in words for word in _PIECES.split(text)):
        found.append("is given your whole home folder, or the whole disk.")
    return tuple(found)


def _removes_trees(options: Sequence[str]) -> bool:
    for option in options:
        if not option.startswith("-"):
            return False
        if option in ("--recursive", "--force") or (option[1:2] != "-" and not set("rRf").isdisjoint(option)):
            return True
    return False


def _is_home(word: str) -> bool:
    homes = {"~", "$HOME", os.path.expanduser("~")}
    return word == "/" or (word.startswith(("/", "~", "$")) and word.rstrip("/") in homes)
