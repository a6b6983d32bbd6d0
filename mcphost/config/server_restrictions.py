"""Restrictions that the user sets on servers, and that also apply to a project's entries for the same servers.

Restrictions are stored by server name, but a project's file can use any name. Therefore, two entries count as the
same server if they have the same URL, or the same program and identifying arguments, even if these are written
differently. This is a heuristic: an entry that starts the program indirectly (through `sh -c` or a copy) is not
recognized, but the user sees the command before approving the entry.
"""

import contextlib
import hashlib
import ipaddress
import os
import re
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

from mcphost.config.rules import ORIGIN_OPERATORS, Rule
from mcphost.config.schema import SamplingLimits, ServerConfig
from mcphost.config.variable_references import resolve_target
from mcphost.serialization import Struct, replace
from mcphost.unicode_forms import HOST_LIMIT, split_url

INSTALLER_START_TIMEOUT = 120.0
"""Time limit in seconds for starting a server whose command first downloads the program."""

_INSTALLERS = frozenset({"npx", "pnpx", "bunx", "uvx", "dlx"})
_INSTALLER_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "npm": frozenset({"exec", "x"}),
    "pnpm": frozenset({"dlx", "exec"}),
    "yarn": frozenset({"dlx"}),
    "bun": frozenset({"x"}),
    "uv": frozenset({"run", "tool"}),
    "pipx": frozenset({"run"}),
    "docker": frozenset({"run", "compose"}),
    "podman": frozenset({"run", "compose"}),
    "nerdctl": frozenset({"run", "compose"}),
    "deno": frozenset({"run"}),
    "go": frozenset({"run"}),
    "cargo": frozenset({"run"}),
}
_MAX_SUBCOMMAND_POSITION = 6  # options may precede the subcommand


def is_installer(argv: Sequence[str]) -> bool:
    """Return whether a command usually downloads the program that it runs, like `npx` or `docker run`."""
    if not argv:
        return False
    name = argv[0].replace("\\", "/").rsplit("/", 1)[-1].lower()
    for suffix in _EXECUTABLE_SUFFIXES:
        name = name.removesuffix(suffix)
    subcommands = _INSTALLER_SUBCOMMANDS.get(name, frozenset())
    return name in _INSTALLERS or not subcommands.isdisjoint(argv[1 : 1 + _MAX_SUBCOMMAND_POSITION])


_TARGET_FIELDS = ("command", "args", "cwd", "env", "env_file", "inputs", "url", "headers", "oauth")
"""The fields of an entry that decide what is started or reached, and with which account."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_EXECUTABLE_SUFFIXES = (".exe", ".cmd", ".bat")
_SCRIPT_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".php", ".sh", ".jar")
_VERSION = re.compile(r"(?<=.)@[^@/]*$")
_SPECIFIER = re.compile(r"[\[<>~!;]|==")
_PACKAGE_OPTIONS = frozenset({"--from", "--package", "--spec", "--module", "-p", "-m"})
"""Options of runners whose value is the package or module to run."""
_PYTHON_MODULE_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]*m(.+)", re.DOTALL)
"""A module name attached to Python's -m, which can be combined with options that take no value."""


def apply_restrictions(
    servers: Sequence[ServerConfig], never: tuple[Rule, ...], limits: SamplingLimits
) -> tuple[tuple[ServerConfig, ...], tuple[Rule, ...]]:
    """Copy the restrictions on the user's servers to a project's entries for the same servers.

    *never* are rules that forbid tool calls, and *limits* the default sampling limits. Returns the servers and the
    rules, changed for each project's entry that is the same server as one of the user's:

    - The entry gets the required reviews of results, the disabled tools and the lower sampling limits of the user's
      server.
    - Each rule in *never* for the user's server is repeated for the entry.
    - Each rule about arguments copied from the user's server also applies to arguments copied from the entry.
    """
    own = [(server, _make_target(server)) for server in servers if server.source == "user"]
    restricted: list[ServerConfig] = []
    rules = list(never)
    aliases: dict[str, list[str]] = {}
    for server in servers:
        target = _make_target(server) if server.source == "project" else None
        same = [own_server for own_server, other in own if target is not None and _is_same(other, target)]
        names = {own_server.name for own_server in same}
        for name in names:
            aliases.setdefault(name, []).append(server.name)
        # Without the text of the original rule, which would be quoted as if it were wrong for this server.
        copies = [replace(rule, server=server.name, written="") for rule in never if rule.server in names]
        rules += [rule for rule in copies if rule not in rules]
        restricted.append(_restrict_server(server, same, copies, limits) if same else server)
    return tuple(restricted), tuple(_add_origins(rule, aliases) for rule in rules)


def _add_origins(rule: Rule, aliases: Mapping[str, Sequence[str]]) -> Rule:
    """Return a rule whose "from" and "never-from" conditions also name the aliases of the servers that they name.

    *aliases* maps the names of the user's servers to the names of project entries for the same servers.
    """
    conditions = tuple(
        replace(
            condition,
            values=(*condition.values, *(alias for name in condition.values for alias in aliases.get(str(name), ()))),
        )
        if condition.operator in ORIGIN_OPERATORS
        else condition
        for condition in rule.conditions
    )
    return rule if conditions == rule.conditions else replace(rule, conditions=conditions)


def _restrict_server(
    server: ServerConfig, own_servers: Sequence[ServerConfig], never: Sequence[Rule], limits: SamplingLimits
) -> ServerConfig:
    lower = dict(server.sampling_limits)
    for own in own_servers:
        for name, limit in own.sampling_limits.items():
            if limit < getattr(limits, name):
                lower[name] = min(limit, lower.get(name, limit))
    from mcphost.config.rule_syntax import format_rule  # loaded with the first server of a project

    disabled = (*server.disabled_tools, *(pattern for own in own_servers for pattern in own.disabled_tools))
    return replace(
        server,
        matching_servers=tuple(own.name for own in own_servers),
        review_results=server.review_results or any(own.review_results for own in own_servers),
        disabled_tools=tuple(dict.fromkeys(disabled)),
        never_rules=tuple(format_rule(rule) for rule in never),
        sampling_limits=lower,
    )


def has_same_target(own: ServerConfig, other: ServerConfig) -> bool:
    """Return whether two server entries have the same URL or start the same program."""
    return _is_same(_make_target(own), _make_target(other))


def find_aliases(name: str, servers: Sequence[ServerConfig]) -> frozenset[str] | None:
    """Return the other names in *servers* that may refer to the same server as *name*, or None if *name* is unknown.

    Two entries refer to the same server if all settings that determine the program or the URL are equal. If one of
    the entries comes from a project, it is enough if they start the same program or have the same URL according to
    `has_same_target`.
    """
    server = next((one for one in servers if one.name == name), None)
    if server is None:
        return None
    return frozenset(one.name for one in servers if one.name != name and _may_be_same(server, one))


def _may_be_same(one: ServerConfig, other: ServerConfig) -> bool:
    if "project" in (one.source, other.source):
        return has_same_target(one, other) or has_same_target(other, one)
    return all(getattr(one, field) == getattr(other, field) for field in _TARGET_FIELDS)


def target_digest(server: ServerConfig) -> str:
    """Return a digest of the program or URL of a server, to recognize it in a later run.

    The digest stays the same if the version of a package, the environment or the query of the URL changes. Equal
    commands in the files of different projects have different digests, because each may start another program.
    """
    target = _make_target(server)
    facts = [*target.address, "", *sorted(target.arguments)]
    if server.is_stdio and server.source in ("project", "flag"):
        facts += ["", os.path.realpath(os.path.dirname(server.file))]
    return hashlib.sha256("\0".join(facts).encode(errors="surrogatepass")).hexdigest()[:16]


class _Target(Struct, frozen=True):
    """Normalized URL, or program with its identifying arguments, from a server's entry."""

    address: tuple[str, ...]
    arguments: frozenset[str] = frozenset()


def _make_target(server: ServerConfig) -> _Target:
    server = resolve_target(server)
    if server.is_stdio:
        return _Target(("program", _normalize_program(server)), _identifying_arguments(server))
    try:
        return _Target(("address", *map(str, _normalize_address(server.url))))
    except ValueError:  # the value of a variable makes the URL invalid, so it reaches nothing
        return _Target(("address", server.url))


def _is_same(own: _Target, other: _Target) -> bool:
    if own.address != other.address:
        return False
    return own.arguments <= other.arguments or bool(other.arguments and other.arguments <= own.arguments)


def _normalize_address(url: str) -> tuple[str, int, str]:
    """Return the normalized host, port and path of a URL; the query and credentials are ignored."""
    parts = split_url(url)
    return (
        _normalize_host(parts.hostname or ""),
        parts.port or _DEFAULT_PORTS.get(parts.scheme, 0),
        _normalize_path(parts.path),
    )


def _normalize_host(name: str) -> str:
    """Return a host name in canonical form; all loopback names and addresses become "localhost"."""
    name = unquote(name).lower().rstrip(".")
    with contextlib.suppress(UnicodeError):
        if len(name) <= HOST_LIMIT:  # a longer name is invalid, and encoding it takes quadratic time
            name = name.encode("idna").decode() or name
    number = _parse_ip_address(name)
    if name.endswith(".localhost") or (number is not None and (number.is_loopback or number.is_unspecified)):
        return "localhost"
    return name if number is None else str(number)


def _parse_ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address, including the short, octal and hexadecimal forms of IPv4; return None for other text."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):  # ValueError: NUL or non-ASCII characters
            return None
    return getattr(address, "ipv4_mapped", None) or address


def _normalize_path(path: str) -> str:
    """Return a URL path without dot segments (RFC 3986, 5.2.4), parameters, repeated slashes or percent-encoding."""
    segments: list[str] = []
    for segment in unquote(path).split("/"):
        name = segment.partition(";")[0]
        if name == "..":
            del segments[-1:]
        elif name not in ("", "."):
            segments.append(name)
    return "/".join(segments)


def _normalize_program(server: ServerConfig) -> str:
    """Return a program's name without its folder, suffix or version, or "installer" for any package runner."""
    if is_installer(server.argv):
        return "installer"
    name = server.command.replace("\\", "/").rsplit("/", 1)[-1].lower()
    for suffix in _EXECUTABLE_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.rstrip("0123456789.") or name


def _identifying_arguments(server: ServerConfig) -> frozenset[str]:
    """Return the arguments that name a module, package or script or, if there are none, all positional arguments."""
    plain = [word for word in server.args if not word.startswith("-")]
    named: set[str] = set()
    for word in (*plain, *_attached_option_values(server)):
        if word.endswith(_SCRIPT_SUFFIXES):
            named.add(os.path.realpath(os.path.join(server.cwd, os.path.expanduser(word))))
        elif not word.startswith(("/", ".", "~")):
            named.add(_normalize_package(word))
    return frozenset(named or plain)


def _attached_option_values(server: ServerConfig) -> list[str]:
    """Return package and module names that are attached to an option, as in `--from=NAME` or `-mNAME`."""
    values: list[str] = []
    is_python = _normalize_program(server).startswith(("py", "ipy"))
    for word in server.args:
        option, _, value = word.partition("=")
        if value and option in _PACKAGE_OPTIONS:
            values.append(value)
        elif is_python and (module := _PYTHON_MODULE_OPTION.fullmatch(word)):
            values.append(module[1])
    return values


def _normalize_package(word: str) -> str:
    """Return a package name in lower case with hyphens, without its version or extras."""
    name = _SPECIFIER.split(_VERSION.sub("", word), maxsplit=1)[0].strip() or word
    return name.lower().replace("_", "-")
