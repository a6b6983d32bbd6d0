"""Command `servers search`: lists the servers of a registry, or shows the details of one server."""

import argparse
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import date
from shlex import quote
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options, count
from mcphost.cli.printing import print_json, print_note, print_table, print_text, show_status
from mcphost.pluralize import translate_count
from mcphost.sanitize import sanitize
from mcphost.translation import N_, _, join_list, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.registry.client import RegistryAnswer, ServerRegistry
    from mcphost.registry.entries import RegistryEntry

_MAX_VERSIONS_SHOWN = 10
STATUS_WORDS = (N_("deleted"), N_("deprecated"))
"""Statuses of a version in a registry, other than "active"."""


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers search` command to *parser*."""
    parser.add_argument("words", nargs="*", metavar="WORD|NAME", help="words of the name, or the whole name")
    parser.add_argument(
        "--limit", type=count, default=30, metavar="N", help="list at most this many servers (default: 30)"
    )
    parser.add_argument(
        "--since",
        type=_start_of_day,
        default="",
        metavar="DATE",
        help="only servers changed since a date, such as 2026-01-31",
    )
    add_registry_flag(parser)
    parser.add_argument("--refresh", action="store_true", help="ask the registry again instead of using recent answers")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _start_of_day(text: str) -> str:
    """Convert a date such as 2026-01-31 to an RFC 3339 timestamp of its start in UTC."""
    try:
        return f"{date.fromisoformat(text).isoformat()}T00:00:00Z" if text else ""
    except ValueError as error:
        raise argparse.ArgumentTypeError("not a date such as 2026-01-31") from error


def add_registry_flag(parser: argparse.ArgumentParser) -> None:
    """Add the `--registry` flag to *parser*."""
    parser.add_argument(
        "--registry",
        default="",
        metavar="URL|FILE",
        help="the URL of a registry, or a JSON file (default: that of config.toml)",
    )


@asynccontextmanager
async def open_configured_registry(
    options: "Options", args: argparse.Namespace, *, refresh: bool
) -> "AsyncGenerator[tuple[ServerRegistry, str]]":
    """Open the registry given by `--registry` or, without it, by config.toml; yield it and its URL or file.

    With *refresh*, a request is sent even if the cache has a recent response.
    """
    from mcphost import paths
    from mcphost.cli.build_host import load_approved_configuration
    from mcphost.registry.client import open_registry

    place: str = args.registry
    if not place:
        place = (await load_approved_configuration(options)).registry.url
    async with open_registry(place, paths.cache_dir() / "registry", refresh=refresh) as registry:
        yield registry, place


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers search` command and return its exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        async with open_configured_registry(options, args, refresh=args.refresh) as (registry, _place):
            return await _search(registry, args, quiet=options.quiet)

    return run_command(options, work)


async def _search(registry: "ServerRegistry", args: argparse.Namespace, *, quiet: bool) -> int:
    text = " ".join(args.words)
    with show_status(_("Searching the registry…"), quiet=quiet):
        answer = await registry.search(text, args.limit, args.since)
        exact = next((entry for entry in answer.entries if entry.name == text), None)
        versions = await registry.list_versions(exact.name) if exact is not None else None
    if args.json:
        shown = [entry_json(entry) for entry in answer.entries]
        if exact is not None and versions is not None:
            shown[answer.entries.index(exact)]["versions"] = [entry.version for entry in versions.entries]
        print_json({
            "servers": shown, "problems": list(answer.problems), "fetched": round(answer.fetched),
            "offline": answer.offline_reason, "more": answer.is_cut,
        })  # fmt: skip
        return 0
    if exact is not None and versions is not None:
        print_details(exact, versions)
    else:
        rows = [_row(entry) for entry in answer.entries]
        print_table(rows, (_("Server"), _("Version"), _("Install from"), _("Description")))
    if not quiet:
        report_answer(answer)
        if not answer.entries and answer.is_cut:
            print_note(_("No server was found, but not every page was searched: use a longer part of its name."))
        elif not answer.entries:
            print_note(_("No server was found."))
        elif exact is None and answer.is_cut:
            print_note(
                _("There may be more than {count}: use a longer name, or --limit.").format(count=len(answer.entries))
            )
    return 0


def _row(entry: "RegistryEntry") -> tuple[str, str, str, str]:
    from mcphost.registry.popularity import describe_popularity

    mark = "" if entry.status == "active" else f"({_(entry.status)}) "
    about = " · ".join(filter(None, (describe_popularity(entry.popularity), entry.description)))
    return entry.name, entry.version, join_list(entry.kinds) or _("nothing"), f"{mark}{about}"


def report_answer(answer: "RegistryAnswer") -> None:
    """Print a registry response's problems, such as omitted entries, and its age if it came from the cache."""
    for problem in answer.problems:
        print_note(problem)
    age = time.time() - answer.fetched
    if answer.offline_reason:
        reason = translate_sentence(answer.offline_reason)
        print_note(
            _("{reason} These results are from the cache, {age} old.").format(reason=reason, age=format_age(age))
            if answer.fetched
            else _("{reason} These results are from the cache, of unknown age.").format(reason=reason)
        )
    elif age > 60:
        print_note(_("These results are {age} old. To search again: --refresh").format(age=format_age(age)))


def format_age(seconds: float) -> str:
    """Format a duration given in seconds in the largest whole unit, such as "3 days" or "less than a minute"."""
    if seconds >= 86_400:
        return translate_count(int(seconds // 86_400), "day")
    if seconds >= 3_600:
        return translate_count(int(seconds // 3_600), "hour")
    if seconds >= 60:
        return translate_count(int(seconds // 60), "minute")
    return _("less than a minute")


def print_details(entry: "RegistryEntry", versions: "RegistryAnswer") -> None:
    """Print the details of a server in a registry, such as its publisher, and how to install it.

    *versions* contains the registry entries of all versions of the server.
    """
    from mcphost.registry.entries import describe_publisher
    from mcphost.registry.popularity import describe_popularity

    numbers = [f"{one.version}{'' if one.status == 'active' else f' ({_(one.status)})'}" for one in versions.entries]
    known, more = join_list(numbers[:_MAX_VERSIONS_SHOWN]), len(numbers) - _MAX_VERSIONS_SHOWN
    published = _("{version}, published {day}").format(version=entry.version, day=entry.published_at[:10])
    lines = {
        _("title"): entry.title,
        _("description"): entry.description,
        _("publisher"): translate_sentence(describe_publisher(entry)),
        _("version"): published if entry.published_at else entry.version,
        _("versions"): _("{versions} and {count} more").format(versions=known, count=more) if more > 0 else known,
        _("status"): "" if entry.status == "active" else f"{_(entry.status)} {entry.status_message}".strip(),
        _("popularity"): describe_popularity(entry.popularity),
        _("repository"): f"{entry.repository.url} {entry.repository.subfolder}".strip(),
        _("website"): entry.website_url,
    }
    print_line(entry.name)
    for name, value in lines.items():
        if value:
            print_line(f"  {name}: {value}")
    for package in entry.packages:
        print_line(f"  {package.registry_type}: {package.identifier} {package.version}".rstrip())
    for remote in entry.remotes:
        print_line(f"  {remote.type}: {remote.url}")
    print_text(_("Install it: mcphost servers install {name}").format(name=quote(entry.name)))


def print_line(text: str) -> None:
    """Print text from a registry on a single line, with control and invisible characters made visible."""
    print_text(sanitize(text, keep_newlines=False))


def entry_json(entry: "RegistryEntry") -> dict[str, Any]:
    """Return a registry entry as data for JSON output."""
    from mcphost.registry.entries import describe_publisher
    from mcphost.serialization import to_builtins

    return {
        "name": entry.name,
        "version": entry.version,
        "title": entry.title,
        "description": entry.description,
        "publisher": describe_publisher(entry),
        "status": entry.status,
        "status_message": entry.status_message,
        "published": entry.published_at,
        "updated": entry.updated_at,
        "popularity": dict(entry.popularity),
        "repository": to_builtins(entry.repository),
        "website": entry.website_url,
        "packages": to_builtins(entry.packages),
        "remotes": to_builtins(entry.remotes),
    }
