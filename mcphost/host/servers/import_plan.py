"""Plan for importing servers from other MCP hosts: the name that each one gets, or why it cannot be imported."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from mcphost.config.approval_digest import ONLY_MASKED, ShownValues, with_file_digests
from mcphost.config.approval_text import describe_server, show_foreign_values
from mcphost.config.mcp_json import parse_servers
from mcphost.config.other_host_entries import ForeignServer
from mcphost.config.relative_paths import find_path_warnings
from mcphost.config.schema import ServerConfig, find_config_error
from mcphost.config.secret_masking import HIDDEN
from mcphost.config.secrets import find_plaintext_secrets
from mcphost.config.server_restrictions import has_same_target
from mcphost.config.variable_references import find_references
from mcphost.errors import ConfigError
from mcphost.serialization import Struct, replace

ImportState = Literal["new", "configured", "unusable"]

_IN_NAMES = str.maketrans({" ": "-", "(": None, ")": None})
"""Characters of a host's title that are replaced or removed when it becomes part of a server's name."""


class ImportCandidate(Struct, frozen=True, kw_only=True):
    """A server found in the configuration of other MCP hosts, which the user may import.

    `name` is the name that the server would get in mcphost; `server` is None if the entry is invalid or cannot be used.
    """

    found: ForeignServer
    """The entry in the first host's file; its server counts as disabled if it is disabled in all hosts that have it."""

    hosts: tuple[str, ...]
    """Display names of all hosts in whose configuration this server was found."""

    state: ImportState
    name: str
    server: ServerConfig | None = None
    reason: str = ""
    """A sentence that says why the entry cannot be used, or under which name the server is already configured."""

    secrets: tuple[str, ...] = ()
    """Key paths of plaintext secrets, such as `env.API_KEY`, which an import moves to the keyring."""

    @property
    def entry(self) -> dict[str, Any]:
        """The entry to write to mcphost's configuration file; a server that is disabled stays disabled."""
        return {**self.found.entry, "disabled": True} if self.found.is_disabled else self.found.entry

    def with_file_digests(self) -> "ImportCandidate":
        """Return the candidate with digests of the files that it names.

        The approval then covers exactly the content that the files had when the candidate was shown. If a file cannot
        be read, the candidate is returned unchanged.
        """
        with suppress(ConfigError):
            return self if self.server is None else replace(self, server=with_file_digests(self.server))
        return self

    @property
    def other_settings(self) -> tuple[str, ...]:
        """Lines that describe what an approval covers besides the command line or URL, such as variables.

        Values that may be code are shown in full if someone else may have written them, for example if the server was
        found in a project. In servers from the user's own configuration files, they are masked if they look secret.
        """
        if self.server is None:
            return ()
        known = ("command: ", "argument ", "address: ", *(() if "cwd" in self.entry else ("folder: ",)))
        return tuple(line for line in describe_server(self.server, self._shown_values) if not line.startswith(known))

    @property
    def readable_secrets(self) -> tuple[str, ...]:
        """Names of the variables that an import moves to the keyring although their values may be code.

        The user must read these values in the list of candidates, because later approval questions contain only
        references to the keyring in their place.
        """
        shown = (name for (_, name), text in self._shown_values.items() if text != HIDDEN)
        return tuple(name for name in shown if f"env.{name}" in self.secrets)

    @property
    def _shown_values(self) -> ShownValues:
        return ONLY_MASKED if self.found.is_own or self.server is None else show_foreign_values(self.server)


def plan_import(
    found: Iterable[ForeignServer], configured: Sequence[ServerConfig], target: Path, folder: Path
) -> tuple[ImportCandidate, ...]:
    """Return one candidate for each distinct server; *target* is the file to write the entries to.

    Identical entries from several MCP hosts yield one candidate, with the first of their names that is not taken by a
    server in *configured* or by another candidate. If all of these names are taken, a new name is made from the first
    one and the name of its MCP host.

    *folder* is the current folder. A candidate gets a note if its server names a file in *folder* but is started in
    another folder.
    """
    candidates: list[ImportCandidate] = []
    names: list[list[str]] = []
    for server in found:
        candidate = _make_candidate(server, configured, target)
        at = next((at for at, other in enumerate(candidates) if _is_same(other, candidate)), None)
        if at is None:
            candidates.append(candidate)
            names.append([server.name])
            continue
        hosts = tuple(dict.fromkeys((*candidates[at].hosts, server.host)))
        first = candidates[at].found
        merged = replace(first, is_disabled=first.is_disabled and server.is_disabled)
        candidates[at] = replace(candidates[at], hosts=hosts, found=merged)
        names[at].append(server.name)
    taken = {server.name for server in configured}
    for at, candidate in enumerate(candidates):
        if candidate.state == "new":
            name = _free_name(names[at], candidate.found.host, taken)
            candidates[at] = _add_path_notes(replace(candidate, name=name), folder)
            taken.add(name)
    return tuple(candidates)


def _make_candidate(found: ForeignServer, configured: Sequence[ServerConfig], target: Path) -> ImportCandidate:
    if found.problem:
        return ImportCandidate(
            found=found, hosts=(found.host,), state="unusable", name=found.name, reason=found.problem
        )
    problems: list[str] = []
    parsed = parse_servers({"mcpServers": {found.name: found.entry}}, str(target), "user", problems.append)
    if not parsed:
        reason = find_config_error(problems) or "Its entry is not valid."
        return ImportCandidate(found=found, hosts=(found.host,), state="unusable", name=found.name, reason=reason)
    server = parsed[0]
    same = next((own for own in configured if has_same_target(own, server)), None)
    return ImportCandidate(
        found=found,
        hosts=(found.host,),
        state="new" if same is None else "configured",
        name=found.name,
        server=server,
        reason="" if same is None else _describe_configured(same, server),
        secrets=tuple(secret.location for secret in find_plaintext_secrets(server)),
    )


def _describe_configured(own: ServerConfig, found: ServerConfig) -> str:
    """Return a sentence that names the configured server *own*, and states whether the variables of *found* differ.

    A variable of *own* that contains a `${…}` reference counts as equal, because an import may have moved its value to
    the keyring.
    """
    is_same = own.env.keys() == found.env.keys() and all(
        own.env[name] == value or find_references(own.env[name]) for name, value in found.env.items()
    )
    return (
        f"You have it already, as {own.name!r}."
        if is_same
        else f"You have it already with other variables, as {own.name!r}."
    )


def _add_path_notes(candidate: ImportCandidate, folder: Path) -> ImportCandidate:
    if candidate.server is None:
        return candidate
    notes = find_path_warnings(replace(candidate.server, name=candidate.name), folder)
    return replace(candidate, found=replace(candidate.found, notes=(*candidate.found.notes, *notes)))


def _is_same(one: ImportCandidate, other: ImportCandidate) -> bool:
    if one.server is None or other.server is None:
        return False
    return _without_timeout(one.found.entry) == _without_timeout(other.found.entry)


def _without_timeout(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry without its time limit for calls, which differs between hosts for the same server."""
    own = {key: value for key, value in entry.get("mcphost", {}).items() if key != "timeout"}
    return {**{key: value for key, value in entry.items() if key != "mcphost"}, **({"mcphost": own} if own else {})}


def _free_name(names: Sequence[str], host: str, taken: set[str]) -> str:
    """Return the first of *names* that is not in *taken*.

    If all of them are taken, return the first name with the host appended (`name-host`) and, if necessary, a number
    (`name-host-2`).
    """
    if free := next((name for name in names if name not in taken), ""):
        return free
    base = f"{names[0]}-{host.lower().translate(_IN_NAMES)}"
    number, candidate = 1, base
    while candidate in taken:
        number += 1
        candidate = f"{base}-{number}"
    return candidate
