"""Warnings about risks in a server's command, environment or URL, shown when the user is asked to approve it.

Each warning continues a sentence that begins with "It".
"""

import os
import re
import shutil
from collections.abc import Iterable, Sequence, Set
from itertools import islice

from mcphost.config.env_file import read_env_file
from mcphost.config.risky_variables import Risk, classify_variable, group_by_risk
from mcphost.config.schema import ServerConfig
from mcphost.config.secrets import list_references
from mcphost.config.target_secrets import find_target_secrets
from mcphost.config.variable_references import find_input, find_references, resolve_target, resolve_text
from mcphost.errors import ConfigError
from mcphost.redact import is_secret_name
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.unicode_forms import is_loopback_host, split_url

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
    "network": "which proxies it uses and which certificates it trusts",
    "settings": "where its programs look for their settings",
}
_MAX_NAMES = 5


def environment_risks(names: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each kind of risk posed by environment variables with these names."""
    return tuple(
        f"sets {_join_names(variables)}: that decides {_RISK_TEXTS[risk]}."
        for risk, variables in group_by_risk(names).items()
    )


def address_risks(url: str) -> tuple[str, ...]:
    """Return warnings if a server's URL is misleading or unencrypted."""
    try:
        parts = split_url(url)
        host = parts.hostname or ""
    except ValueError:
        return ()
    shown = sanitize(host, keep_newlines=False)
    risks: list[str] = []
    if "@" in parts.netloc:
        risks.append(f"is reached at {shown}: the part before the @ is not the host.")
    if not host.isascii() or any(label.startswith("xn--") for label in host.split(".")):
        risks.append(f"has letters in its host ({shown}) that can look like others.")
    if parts.scheme == "http" and not is_loopback_host(host):
        risks.append("is reached without encryption: others on the network can read and change everything.")
    return tuple(risks)


def reference_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return a warning for each local secret that *server*, if it is a project's remote server, would receive."""
    if server.source != "project" or server.is_stdio:
        return ()
    sent: dict[str, list[str]] = {}
    for place, what in list_references(server):
        if _is_secret_reference(server, what):
            sent.setdefault(sanitize(what, keep_newlines=False), []).append(sanitize(place, keep_newlines=False))
    where = _display_host(resolve_target(server).url)
    return tuple(
        f"sends your {what} {'when it signs in' if all(_is_sign_in(place) for place in places) else f'to {where}'}"
        f" ({', '.join(places)}), and its owner can keep it."
        for what, places in sent.items()
    )


def argument_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return warnings about secrets in the server's command line, which other programs on the machine can read."""
    shown = dict.fromkeys(
        what
        for place, what in list_references(server)
        if place.startswith("argument ") and _is_secret_reference(server, what)
    )
    risks: list[str] = []
    if shown:
        risks.append(f"gets your {_join_names(tuple(shown))} in its command line, which other programs can read.")
    if find_target_secrets(server):
        risks.append("has a secret in its command line, which other programs can read.")
    return tuple(risks)


def url_secret_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return warnings about secrets in a server's URL, which servers and proxies write to their logs.

    For a server from a project, `${…}` references to secrets are not included, because `reference_risks` reports them.
    """
    sent = dict.fromkeys(
        what for place, what in list_references(server) if place == "address" and _is_secret_reference(server, what)
    )
    risks: list[str] = []
    if sent and server.source != "project":  # for a project, `reference_risks` says where they are sent
        risks.append(
            f"sends your {_join_names(tuple(sent))} in its URL, which servers and proxies write to their logs."
        )
    if find_target_secrets(server):
        risks.append("has a secret in its URL, which servers and proxies write to their logs.")
    return tuple(risks)


def _is_secret_reference(server: ServerConfig, text: str) -> bool:
    """Return whether *text* is a `${…}` reference that usually stands for a secret."""
    for reference in find_references(text) if text.startswith("${") else ():
        definition = find_input(server, reference.name) if reference.kind == "input" else None
        if reference.kind == "keyring" or (definition is not None and definition.password):
            return True
        if reference.kind == "variable" and _is_secret(reference.name):
            return True
    return False


def _is_secret(name: str) -> bool:
    return is_secret_name(name) or not _SECRET_WORDS.isdisjoint(name.upper().split("_"))


def _is_sign_in(place: str) -> bool:
    return place.startswith("sign-in ")


def _display_host(url: str) -> str:
    try:
        return sanitize(split_url(url).hostname or url, keep_newlines=False)
    except ValueError:
        return sanitize(url, keep_newlines=False)


def _join_names(names: Sequence[str]) -> str:
    """Join at most five names with commas and "and"; the others are only counted, as in "and 3 more"."""
    shown = [sanitize_line(name, 100) for name in names[:_MAX_NAMES]]
    if len(names) > _MAX_NAMES:
        return f"{', '.join(shown)} and {len(names) - _MAX_NAMES} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def command_risks(command: Sequence[str]) -> tuple[str, ...]:
    """Return a warning for each kind of risk recognized in a command line.

    A command without a warning may be just as dangerous. Takes time linear in the length of the command.
    """
    words = [part for word in command for part in _SPLIT.split(word) if part]
    names = [word.rsplit("/", 1)[-1] for word in words]
    risks: list[str] = []
    if admin := next((name for name in names if name in _PRIVILEGE_COMMANDS), ""):
        risks.append(f"asks for administrator rights ({admin}).")
    if any(name == "rm" and _removes_trees(words[at + 1 : at + 11]) for at, name in enumerate(names)):
        risks.append("removes files without confirmation (rm).")
    if _DOWNLOAD_COMMANDS.intersection(names) and _SHELLS.intersection(names):
        risks.append("runs a script from the network.")
    if any(not _KEY_FILES.isdisjoint(word.split("/")) for text in words for word in _WORD_PARTS.split(text)):
        risks.append("names a folder or file of secret keys.")
    homes = {"~", "$HOME", os.path.expanduser("~")}
    if any(_is_home(word, homes) for text in words for word in _WORD_PARTS.split(text)):
        risks.append("is given your whole home folder, or the whole disk.")
    return tuple(risks)


def _removes_trees(options: Sequence[str]) -> bool:
    for option in options:
        if not option.startswith("-"):
            return False
        if option in ("--recursive", "--force") or (option[1:2] != "-" and not set("rRf").isdisjoint(option)):
            return True
    return False


def _is_home(word: str, homes: Set[str]) -> bool:
    return word == "/" or (word.startswith(("/", "~", "$")) and word.rstrip("/") in homes)


_MAX_VARIABLES = 5
_MAX_PATHS = 1_000
_CHANGE_WARNING = "where files can change without a new approval"
_WORDS = re.compile(r"[\s=,]+")


def project_file_risks(server: ServerConfig) -> tuple[str, ...]:
    """Return a warning for each way in which a server from a project depends on files in the project's folder."""
    if server.source != "project" or not server.file:
        return ()
    server = resolve_target(server)
    project = os.path.realpath(os.path.dirname(os.path.abspath(server.file)))
    if not server.is_stdio:
        if server.ca_file and _is_inside(server.ca_file, project):
            return (f"trusts certificates in the project's folder ({_display_path(server.ca_file)}).",)
        return ()
    folder = server.cwd or os.getcwd()
    values = {**_read_env_file(server), **{name: resolve_text(server, text) for name, text in server.env.items()}}
    risks: list[str] = []
    program = _find_program(server.command, folder, values.get("PATH"))
    if program and _is_inside(program, project):
        risks.append(f"runs a program in the project's folder ({_display_path(program)}), {_CHANGE_WARNING}.")
    names: list[str] = []
    path_count = 0
    for name, text in sorted(values.items()):
        paths = list(islice(_find_paths(name, text, folder), _MAX_PATHS)) if classify_variable(name) else []
        path_count += len(paths)
        # Checking paths takes time, so an unusually long list is reported without being checked.
        if paths and (path_count >= _MAX_PATHS or any(_is_inside(path, project) for path in paths)):
            names.append(name)
    if names:
        risks.append(f"sets {_join_variables(names)} to places in the project's folder, {_CHANGE_WARNING}.")
    return tuple(risks)


def _read_env_file(server: ServerConfig) -> dict[str, str]:
    try:
        return read_env_file(server, os.environ)
    except ConfigError:
        return {}


def _find_program(command: str, folder: str, path: str | None) -> str:
    """Return the path of the program that *command* would start, or "" if it is not found.

    *folder* is the working directory and *path* the server's own value of PATH, None if it has none.
    """
    if os.sep in command:
        return os.path.join(folder, command)
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)[:_MAX_PATHS]
    if path is None:
        folders = [part for part in folders if os.path.isabs(part)]
    return shutil.which(command, path=os.pathsep.join(os.path.join(folder, part) for part in folders)) or ""


def _find_paths(name: str, text: str, folder: str) -> Iterable[str]:
    """Yield the paths in the value of an environment variable; relative ones are joined to *folder*.

    The value of PATH is a list of folders, which are all yielded. In the value of another variable, the entries that
    are paths are yielded, and also the paths within words such as `--require=./x`.
    """
    for part in text.split(os.pathsep):
        if name.upper() == "PATH":
            yield os.path.join(folder, part)
            continue
        for word in (part, *_WORDS.split(part)):
            path = os.path.join(folder, word.strip("\"'"))
            if word and (os.sep in word or os.path.exists(path)):
                yield path


def _is_inside(path: str, project: str) -> bool:
    """Return whether a path, as written or with links resolved, is the project folder or inside it."""
    return any(
        place == project or place.startswith(project.rstrip(os.sep) + os.sep)
        for place in (os.path.realpath(path), os.path.normpath(os.path.abspath(path)))
    )


def _join_variables(names: Sequence[str]) -> str:
    shown = [sanitize_line(name, 100) for name in names[:_MAX_VARIABLES]]
    more = f" and {len(names) - _MAX_VARIABLES} more" if len(names) > _MAX_VARIABLES else ""
    return ", ".join(shown) + more


def _display_path(path: str) -> str:
    return sanitize_line(path, 500)
