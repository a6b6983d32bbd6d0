"""What in the command and the environment of a server deserves a second look before it is allowed to run."""

import os
import re
from collections.abc import Iterable, Sequence, Set
from ipaddress import ip_address

from mcphost.config.expansion import references
from mcphost.config.risky_variables import Risk, by_risk
from mcphost.config.schema import ServerConfig
from mcphost.redact import is_secret_name
from mcphost.sanitize import sanitize
from mcphost.unicode_forms import split_url

_SPLIT = re.compile(r"[\s;&|()<>`'\"{}]+")
_WORD_PARTS = re.compile(r"[=:,]")
_PRIVILEGE_COMMANDS = frozenset({"sudo", "doas", "pkexec", "su", "run0"})
_DOWNLOAD_COMMANDS = frozenset({"curl", "wget"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_KEY_FILES = frozenset({".ssh", ".gnupg", ".aws", ".kube", "id_rsa", "id_ed25519", "id_ecdsa"})
_SECRET_WORDS = frozenset({"KEY", "TOKEN", "SECRET", "PASSWORD", "PASS", "AUTH", "PAT", "CREDENTIAL", "CREDENTIALS"})
_RISK_TEXTS: dict[Risk, str] = {
    "code": "which code its program loads",
    "packages": "where its packages and containers come from",
    "network": "through whom its connections go and which certificates it believes",
    "settings": "where its programs look for their settings",
}
_MAX_NAMES = 5


def environment_risks(names: Iterable[str]) -> tuple[str, ...]:
    """Return sentences that continue "It …", one for each kind of risk that the variables of those names carry."""
    return tuple(
        f"sets {_join_names(found)}: that decides {_RISK_TEXTS[risk]}." for risk, found in by_risk(names).items()
    )


def address_risks(url: str) -> tuple[str, ...]:
    """Return sentences that continue "It …": the address leads elsewhere than it seems, or others can read along."""
    try:
        parts = split_url(url)
        host = parts.hostname or ""
    except ValueError:
        return ()
    shown = sanitize(host, keep_newlines=False)
    found: list[str] = []
    if "@" in parts.netloc:
        found.append(f"is reached at {shown}: what stands before the @ is no host.")
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        found.append(f"has letters in its host ({shown}) that can look like others.")
    if parts.scheme == "http" and not _is_loopback(host):
        found.append("is reached without encryption: others on the way can read and change everything.")
    return tuple(found)


def reference_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return sentences that continue "It …": a project's entry sends secrets of this machine to an address."""
    if server.source != "project" or server.is_stdio:
        return ()
    sent: dict[str, list[str]] = {}
    for place, what in references(server):
        kind, _, name = what.removeprefix("${").removesuffix("}").partition(":")
        if what.startswith("${") and (kind == "keyring" or _is_secret(name)):
            sent.setdefault(sanitize(what, keep_newlines=False), []).append(sanitize(place, keep_newlines=False))
    where = _display_host(server.url)
    return tuple(
        f"sends your {what} {'when it signs in' if all(_is_sign_in(place) for place in places) else f'to {where}'}"
        f" ({', '.join(places)}): whoever is there has it then."
        for what, places in sent.items()
    )


def _is_secret(name: str) -> bool:
    """Whether a variable of that name usually holds a secret."""
    return is_secret_name(name) or not _SECRET_WORDS.isdisjoint(name.upper().split("_"))


def _is_sign_in(place: str) -> bool:
    return place.startswith("sign-in ")


def _display_host(url: str) -> str:
    try:
        return sanitize(split_url(url).hostname or url, keep_newlines=False)
    except ValueError:
        return sanitize(url, keep_newlines=False)


def _is_loopback(host: str) -> bool:
    """Whether the host is this machine; a name below `localhost` may be anybody, since resolvers ask the network."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _join_names(names: Sequence[str]) -> str:
    """Some names in words; how many more there are, when there are many."""
    shown = [sanitize(name[:100], keep_newlines=False) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        return f"{', '.join(shown)} and {len(names) - _MAX_NAMES} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def command_risks(command: Sequence[str]) -> tuple[str, ...]:
    """Sentences that continue "It …", one for each kind of danger that the words of a command show.

    A list of warnings and no guard: what it does not know may be as bad. The time is linear in the length.
    """
    words = [part for word in command for part in _SPLIT.split(word) if part]
    names = [word.rsplit("/", 1)[-1] for word in words]
    found: list[str] = []
    if admin := next((name for name in names if name in _PRIVILEGE_COMMANDS), ""):
        found.append(f"asks for the rights of the administrator ({admin}).")
    if any(name == "rm" and _removes_trees(words[at + 1 : at + 11]) for at, name in enumerate(names)):
        found.append("removes files without asking (rm).")
    if _DOWNLOAD_COMMANDS.intersection(names) and _SHELLS.intersection(names):
        found.append("runs a script straight from the network.")
    if any(not _KEY_FILES.isdisjoint(word.split("/")) for text in words for word in _WORD_PARTS.split(text)):
        found.append("names a place of secret keys.")
    homes = {"~", "$HOME", os.path.expanduser("~")}
    if any(_is_home(word, homes) for text in words for word in _WORD_PARTS.split(text)):
        found.append("is given your whole home folder, or the whole disk.")
    return tuple(found)


def _removes_trees(options: Sequence[str]) -> bool:
    for option in options:
        if not option.startswith("-"):
            return False
        if option in ("--recursive", "--force") or (option[1:2] != "-" and not set("rRf").isdisjoint(option)):
            return True
    return False


def _is_home(word: str, homes: Set[str]) -> bool:
    return word == "/" or (word.startswith(("/", "~", "$")) and word.rstrip("/") in homes)
