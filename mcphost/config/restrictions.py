"""What the user restricted at a server of their own holds for a project's entry that leads to the same one, too.

Restrictions go by a server's name, and whoever writes a project's file chooses the names in it. Two entries are taken
for the same server when they have the same address, or the same program and the words that say what it runs, however
these are spelled. That is a guess: an entry that starts a program in another way (`sh -c`, a copy of it) is not
recognized, and its command is what the question about it shows.
"""

import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Sequence
from urllib.parse import unquote

from mcphost.config.package_runners import is_installer
from mcphost.config.rules import Rule, format_rule
from mcphost.config.schema import SamplingLimits, ServerConfig
from mcphost.serialization import Struct, replace
from mcphost.unicode_forms import HOST_LIMIT, split_url

_DEFAULT_PORTS = {"http": 80, "https": 443}
_EXECUTABLE_SUFFIXES = (".exe", ".cmd", ".bat")
_SCRIPT_SUFFIXES = (".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".php", ".sh", ".jar")
_VERSION = re.compile(r"(?<=.)@[^@/]*$")
_SPECIFIER = re.compile(r"[\[<>~!;]|==")
_PACKAGE_OPTIONS = frozenset({"--from", "--package", "--spec", "--module", "-p", "-m"})
"""Options whose value says what is run."""
_PYTHON_MODULE_OPTION = re.compile(r"-[bBdEiIOPqsSuvx]*m(.+)", re.DOTALL)
"""A module right behind Python's -m, which may stand behind options without a value."""


def apply_restrictions(
    servers: Sequence[ServerConfig], never: tuple[Rule, ...], limits: SamplingLimits
) -> tuple[tuple[ServerConfig, ...], tuple[Rule, ...]]:
    """Return the servers and the never-list with what holds for project entries that lead to a server of the user's.

    Such an entry gets their reviews, disabled tools and lower sampling limits, and never-rules of its own.
    """
    own = [(server, _make_target(server)) for server in servers if server.source == "user"]
    made: list[ServerConfig] = []
    rules = list(never)
    for server in servers:
        target = _make_target(server) if server.source == "project" else None
        same = [one for one, known in own if target is not None and _is_same(known, target)]
        names = {one.name for one in same}
        more = [replace(rule, server=server.name) for rule in never if rule.server in names]
        rules += [rule for rule in more if rule not in rules]
        made.append(_restrict_server(server, same, more, limits) if same else server)
    return tuple(made), tuple(rules)


def _restrict_server(
    server: ServerConfig, own_servers: Sequence[ServerConfig], never: Sequence[Rule], limits: SamplingLimits
) -> ServerConfig:
    lower = dict(server.sampling_limits)
    for one in own_servers:
        for name, most in one.sampling_limits.items():
            if most < getattr(limits, name):
                lower[name] = min(most, lower.get(name, most))
    disabled = (*server.disabled_tools, *(pattern for one in own_servers for pattern in one.disabled_tools))
    return replace(
        server,
        matching_servers=tuple(one.name for one in own_servers),
        review_results=server.review_results or any(one.review_results for one in own_servers),
        disabled_tools=tuple(dict.fromkeys(disabled)),
        never_rules=tuple(format_rule(rule) for rule in never),
        sampling_limits=lower,
    )


def has_same_target(own: ServerConfig, other: ServerConfig) -> bool:
    """Whether two entries reach the same address or start the same program, as far as they say so themselves."""
    return _is_same(_make_target(own), _make_target(other))


class _Target(Struct, frozen=True):
    """What an entry leads to: an address, or what is started and the words that say what that runs."""

    address: tuple[str, ...]
    arguments: frozenset[str] = frozenset()


def _make_target(server: ServerConfig) -> _Target:
    if server.is_stdio:
        return _Target(("program", _normalize_program(server)), _identifying_arguments(server))
    return _Target(("address", *map(str, _normalize_address(server.url))))


def _is_same(own: _Target, other: _Target) -> bool:
    if own.address != other.address:
        return False
    return own.arguments <= other.arguments or bool(other.arguments and other.arguments <= own.arguments)


def _normalize_address(url: str) -> tuple[str, int, str]:
    """Host, port and path; the query, the user name and how host and path are written do not count."""
    parts = split_url(url)
    return (
        _normalize_host(parts.hostname or ""),
        parts.port or _DEFAULT_PORTS.get(parts.scheme, 0),
        _normalize_path(parts.path),
    )


def _normalize_host(name: str) -> str:
    """The host as everybody writes it; every name and number of this machine is "localhost"."""
    name = unquote(name).lower().rstrip(".")
    with contextlib.suppress(UnicodeError):
        if len(name) <= HOST_LIMIT:  # a longer one is no name, and takes time that grows with its square
            name = name.encode("idna").decode() or name
    number = _parse_ip_address(name)
    if name.endswith(".localhost") or (number is not None and (number.is_loopback or number.is_unspecified)):
        return "localhost"
    return name if number is None else str(number)


def _parse_ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address that a host is; also one in the short, octal and hexadecimal spellings that systems take."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            found = ipaddress.IPv4Address(socket.inet_aton(host))
        except (OSError, ValueError):  # ValueError: a NUL in it, or letters that are not ASCII
            return None
    return getattr(found, "ipv4_mapped", None) or found


def _normalize_path(path: str) -> str:
    """The path without dot segments (RFC 3986, section 5.2.4), parameters, repeated slashes and percent-encoding."""
    kept: list[str] = []
    for segment in unquote(path).split("/"):
        name = segment.partition(";")[0]
        if name == "..":
            del kept[-1:]
        elif name not in ("", "."):
            kept.append(name)
    return "/".join(kept)


def _normalize_program(server: ServerConfig) -> str:
    """What is started, without folder, ending and version; all programs that fetch what they run are one."""
    if is_installer(server.argv):
        return "installer"
    name = server.command.replace("\\", "/").rsplit("/", 1)[-1].lower()
    for ending in _EXECUTABLE_SUFFIXES:
        name = name.removesuffix(ending)
    return name.rstrip("0123456789.") or name


def _identifying_arguments(server: ServerConfig) -> frozenset[str]:
    """The arguments that say what is run: modules, packages and scripts; all of them where there is none of these."""
    plain = [word for word in server.args if not word.startswith("-")]
    named: set[str] = set()
    for word in (*plain, *_attached_option_values(server)):
        if word.endswith(_SCRIPT_SUFFIXES):
            named.add(os.path.realpath(os.path.join(server.cwd, os.path.expanduser(word))))
        elif not word.startswith(("/", ".", "~")):
            named.add(_normalize_package(word))
    return frozenset(named or plain)


def _attached_option_values(server: ServerConfig) -> list[str]:
    """What is run where that stands in one argument with its option: `--from=NAME`, `-mNAME`."""
    found: list[str] = []
    is_python = _normalize_program(server).startswith(("py", "ipy"))
    for word in server.args:
        option, _, value = word.partition("=")
        if value and option in _PACKAGE_OPTIONS:
            found.append(value)
        elif is_python and (module := _PYTHON_MODULE_OPTION.fullmatch(word)):
            found.append(module[1])
    return found


def _normalize_package(word: str) -> str:
    """The name of a package without version and extras, in the one spelling of those that installers take for it."""
    name = _SPECIFIER.split(_VERSION.sub("", word), maxsplit=1)[0].strip() or word
    return name.lower().replace("_", "-")
