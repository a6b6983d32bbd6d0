"""Warnings about registry entries that imitate another server.

An entry is suspicious if it has a similar name, mixes scripts, or has the wrong publisher.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from mcphost.registry.entries import RegistryEntry, name_publisher
from mcphost.registry.plan import InstallOption
from mcphost.sanitize import sanitize_line
from mcphost.unicode_forms import ascii_skeleton, describe_name_risk, split_url

_WELL_KNOWN_NAMES = """
    @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-memory
    @modelcontextprotocol/server-sequential-thinking mcp-server-fetch mcp-server-git mcp-server-time mcp-server-sqlite
    @playwright/mcp @upstash/context7-mcp @notionhq/notion-mcp-server @stripe/mcp @supabase/mcp-server-supabase
    @sentry/mcp-server @azure/mcp chrome-devtools-mcp firebase-tools figma-developer-mcp awslabs.core-mcp-server
    ghcr.io/github/github-mcp-server io.github.github/github-mcp-server io.github.upstash/context7
    io.github.getsentry/sentry-mcp com.atlassian/atlassian-mcp-server com.notion/mcp com.stripe/mcp com.supabase/mcp
    com.figma.mcp/mcp app.linear/linear io.github.microsoft/playwright-mcp com.microsoft/azure com.vercel/vercel-mcp
"""
"""Popular servers and packages, whose names are likely to be imitated."""
_PUBLISHER_NAMES = """
    modelcontextprotocol anthropic anthropics github microsoft google googleapis cloudflare stripe notion notionhq
    atlassian supabase upstash playwright getsentry sentry linear figma vercel awslabs amazon openai gitlab docker
    mongodb elastic grafana hashicorp shopify slack paypal twilio datadog netlify jetbrains huggingface salesforce
"""
_WELL_KNOWN = tuple(sorted(_WELL_KNOWN_NAMES.split()))
_PUBLISHERS = tuple(sorted(_PUBLISHER_NAMES.split()))
_LOOKALIKES = str.maketrans("01i|5", "ollls", "-_. ")
_MAX_COMPARED_LENGTH = 120
_MIN_LENGTH = 5
_LONG_LENGTH = 12
_MAX_OWNER_WORDS = 5
"""Number of leading parts of a package's name that are compared; they include the host and the owner."""
_SHARED_HOSTS = ("github.com", "gitlab.com", "codeberg.org", "bitbucket.org")


def find_warnings(
    server: RegistryEntry, option: InstallOption, name: str, configured: Iterable[str]
) -> tuple[str, ...]:
    """Return a sentence for each sign that a registry entry imitates another server.

    *option* is the package or remote URL that would be installed, and *name* is the planned name of the server in
    mcp.json. *configured* are the names of the servers that are already in mcp.json.
    """
    return tuple(dict.fromkeys([
        *_name_warnings(server, option),
        *(f"The name {name} looks like that of your {other}." for other in configured if is_similar(name, other)),
        *_script_warnings(server.title, server.description),
        *_publisher_warnings(server, option),
    ]))  # fmt: skip


def _name_warnings(server: RegistryEntry, option: InstallOption) -> Iterator[str]:
    names = {server.name: "server"}
    if option.package is not None:
        names[option.package.identifier.partition(":")[0].partition("@sha256")[0]] = "package"
    for name, what in names.items():
        known = _find_similar(name[:_MAX_COMPARED_LENGTH], _WELL_KNOWN)
        if known:
            yield f"The {what} {_show(name)} is not the well-known {known}, but looks like it."
    for label in _publisher_labels(server, option):
        known = _find_similar(label[:_MAX_COMPARED_LENGTH], _PUBLISHERS)
        if known and label.lower() not in _PUBLISHERS:
            yield f"The publisher {_show(label)} is not the well-known {known}, but looks like it."


def _publisher_labels(server: RegistryEntry, option: InstallOption) -> list[str]:
    """Return words that identify the publisher: the parts of the namespace, and the scope or owner of the package."""
    labels = [label for label in server.namespace.split(".") if len(label) >= _MIN_LENGTH]
    if option.package is not None and "/" in option.package.identifier:
        words = filter(None, option.package.identifier.split("/")[:-1])
        labels += [word.lstrip("@") for word in islice(words, _MAX_OWNER_WORDS)]
    return labels


@lru_cache(64)
def _script_warnings(title: str, description: str) -> tuple[str, ...]:
    """Return a warning if a word in an entry's title or description mixes scripts.

    The result is cached, because it is the same for every way to install the entry.
    """
    for text in dict.fromkeys((title, *title.split(), *description.split())):
        risk = describe_name_risk(text[:_MAX_COMPARED_LENGTH])
        if risk:
            return (f"Its description {risk.replace('has a name', 'has a word', 1)}",)
    return ()


def _publisher_warnings(server: RegistryEntry, option: InstallOption) -> Iterator[str]:
    labels = server.namespace.split(".")
    host, owner = _host_and_owner(server.repository.url)
    if labels[:2] == ["io", "github"] and len(labels) == 3:
        if owner and (host != "github.com" or owner.lower() != labels[2].lower()):
            yield (
                f"It is published by the {name_publisher(server)}, but its repository belongs to {_show(owner)} at"
                f" {_show(host)}."
            )
        return
    domain = ".".join(reversed(labels)).lower()
    if host and host not in _SHARED_HOSTS and not _is_within(host, domain):
        yield f"It is published by the {name_publisher(server)}, but its repository is at {_show(host)}."
    if option.remote is not None:
        address = _host_and_owner(option.remote.url)[0]
        if address and "{" not in address and not _is_within(address, domain):
            yield f"It is published by the {name_publisher(server)}, but its address is at {_show(address)}."


def _is_within(host: str, domain: str) -> bool:
    """Return whether *host* equals *domain* or the last two labels of *domain*, or is a subdomain of either."""
    parent = ".".join(domain.split(".")[-2:])
    return host in (domain, parent) or host.endswith((f".{domain}", f".{parent}"))


def _host_and_owner(url: str) -> tuple[str, str]:
    """Return the host of a URL and the first segment of its path.

    Returns two empty strings if the URL is invalid.
    """
    try:
        parts = split_url(url[:2_000])
        return (parts.hostname or "").lower().removeprefix("www."), parts.path.strip("/").partition("/")[0]
    except ValueError:
        return "", ""


def is_similar(name: str, other: str) -> bool:
    """Return whether two names are different but easily confused.

    Two names are easily confused if they look alike or differ by one letter; long names may differ by two letters.
    """
    one, two = name[:_MAX_COMPARED_LENGTH].lower(), other[:_MAX_COMPARED_LENGTH].lower()
    if one == two:
        return False
    if _skeleton(one) == _skeleton(two):
        return True
    shortest = min(len(one), len(two))
    allowed = 2 if shortest >= _LONG_LENGTH else 1
    # Each change replaces at most one letter, so names that differ in many letters need not be compared.
    may_differ = shortest >= _MIN_LENGTH and len(set(one) ^ set(two)) <= 2 * allowed
    return may_differ and _distance(one, two, allowed) <= allowed


@lru_cache(1_024)
def _find_similar(name: str, known: tuple[str, ...]) -> str:
    """Return the first of the *known* names that is easily confused with *name*, or "" if there is none."""
    return next((other for other in known if is_similar(name, other)), "")


@lru_cache(1_024)
def _skeleton(name: str) -> str:
    """Return a name without separators, with each lookalike character replaced by the letter it resembles."""
    plain = ascii_skeleton(name).lower().replace("rn", "m").replace("vv", "w")
    return plain.translate(_LOOKALIKES)


def _distance(one: str, two: str, limit: int) -> int:
    """Return the number of letters to add, remove, change or swap to turn one name into the other.

    The result is *limit* + 1 if the number exceeds *limit*.
    """
    if abs(len(one) - len(two)) > limit:
        return limit + 1
    before, current = [], list(range(len(two) + 1))
    for row, letter in enumerate(one, 1):
        before, earlier = current, before
        current = [row]
        for column, other in enumerate(two, 1):
            cost = min(before[column] + 1, current[-1] + 1, before[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == two[column - 2] and one[row - 2] == other:
                cost = min(cost, earlier[column - 2] + 1)
            current.append(cost)
        if min(current) > limit:
            return limit + 1
    return current[-1]


def _show(text: str) -> str:
    return sanitize_line(text, 100)
