"""Commands `servers import` (from the files of other MCP hosts) and `servers export` (without secrets)."""

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import join, shlex
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options
from mcphost.cli.printing import format_error, print_json, print_note, print_table, print_text
from mcphost.config.description_lines import translate_line
from mcphost.errors import ConfigError, UsageError
from mcphost.translation import _, join_list, translate_sentence

_NONE_WORDS = frozenset({"none", "nothing", "no", "n", "q"})
"""Answers that import nothing; servers of these names can only be chosen by their numbers."""

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.config.other_host_entries import ForeignServer
    from mcphost.config.schema import ServerInput
    from mcphost.host.servers.import_plan import ImportCandidate


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of the `servers import` or `servers export` command to *parser*."""
    if action == "import":
        parser.add_argument(
            "source", nargs="?", metavar="HOST|FILE", help="a host, such as cursor, or a file (default: all hosts)"
        )
        parser.add_argument("--name", action="append", metavar="NAME", help="only the server of this name; repeatable")
        parser.add_argument("--yes", action="store_true", help="import and approve what is new, without asking")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers import` or `servers export` command and return its exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)

    async def work() -> int:
        if args.action == "export":
            return await _export(options)
        return await _import(options, args)

    return run_command(options, work)


async def _import(options: "Options", args: argparse.Namespace) -> int:
    from mcphost.cli.edit_servers import open_server_editor, print_saved
    from mcphost.cli.terminal_frontend import TerminalInput, ask_missing_inputs, is_interactive
    from mcphost.config.loader import SERVERS_FILE
    from mcphost.host.servers.import_plan import plan_import

    async with open_server_editor(options) as (editor, config):
        found = _find(args.source)
        candidates = plan_import(found, config.servers, editor.config_dir / SERVERS_FILE, Path.cwd())
        if args.name:
            _require_names(args.name, candidates)
            candidates = tuple(candidate for candidate in candidates if candidate.found.name in args.name)
        if args.json and not args.yes:
            print_json({"servers": [_candidate_json(candidate) for candidate in candidates]})
            return 0
        candidates = tuple(candidate.with_file_digests() for candidate in candidates)
        _print_candidates(candidates, goes_to_file=config.secret_store == "file")  # noqa: S105 - a place
        chosen = _find_new(candidates)
        if not candidates:
            print_note(_("No servers of other hosts were found."))
        _print_project_files(args.source)
        if not chosen:
            return 0
        if not args.yes:
            chosen = _ask_which(chosen)
        saved: list[str] = []
        reader = TerminalInput() if is_interactive() and not args.yes else None
        answers: dict[tuple[str, ServerInput], str] = {}
        # With another program's standard output, the question was asked, but the list was not seen.
        is_seen = args.yes or sys.stdout.isatty()
        for candidate in chosen:
            if candidate.readable_secrets and not is_seen:
                text = _("{name} was not imported. You have not seen the values of {names}, which may be code.")
                print_note(text.format(name=candidate.name, names=join_list(candidate.readable_secrets)))
                continue
            try:
                result = await editor.add(candidate.name, candidate.entry, is_approved=is_seen, seen=candidate.server)
                if result.server is not None:
                    await ask_missing_inputs(editor, result.server, reader, answers, candidate.found.file)
            except ConfigError as error:
                print_note(_("{name} was not imported. {error}").format(name=candidate.name, error=format_error(error)))
                continue
            saved.append(candidate.name)
            if not args.json:
                print_saved(result, "imported")
    if args.json:
        print_json({"imported": saved})
    return 0 if len(saved) == len(chosen) else 3


def _find(source: str | None) -> "tuple[ForeignServer, ...]":
    from mcphost.config.host_formats import HOSTS, find_host, find_places
    from mcphost.config.other_hosts import find_foreign_servers, read_named_file

    places = find_places(Path.home(), Path.cwd(), os.environ)
    if source is None:
        return find_foreign_servers(places)
    host = find_host(source)
    if host is not None:
        return find_foreign_servers(places, [host], with_folder=True)
    if os.sep not in source and not os.path.exists(source):
        raise UsageError(f"There is no host or file {source!r}.", f"Hosts: {', '.join(host.id for host in HOSTS)}.")
    return read_named_file(Path(os.path.expanduser(source)), places)


def _print_project_files(source: str | None) -> None:
    """Print the path of each configuration file of another MCP host in the current folder, and how to import it.

    The files are not read. If the user has named a *source* for the import, nothing is printed.
    """
    from mcphost.config.host_formats import find_places
    from mcphost.config.other_hosts import find_project_files

    places = find_places(Path.home(), Path.cwd(), os.environ)
    for host, file in find_project_files(places) if source is None else ():
        text = _("Also in this folder: {file} (mcphost servers import {host})")
        print_note(text.format(file=file.relative_to(Path.cwd()), host=host.id))


def _require_names(names: list[str], candidates: "tuple[ImportCandidate, ...]") -> None:
    known = [candidate.found.name for candidate in candidates if candidate.found.name]
    if missing := next((name for name in names if name not in known), ""):
        raise UsageError(
            f"No server named {missing!r} was found.", f"Found: {', '.join(known)}." if known else "Found: none."
        )


def _find_new(candidates: "tuple[ImportCandidate, ...]") -> "list[ImportCandidate]":
    return [candidate for candidate in candidates if candidate.state == "new"]


def _print_candidates(candidates: "tuple[ImportCandidate, ...]", *, goes_to_file: bool) -> None:
    from mcphost.host.servers.server_approval import server_warnings

    numbers = {id(candidate): str(number) for number, candidate in enumerate(_find_new(candidates), 1)}
    rows = [
        (
            numbers.get(id(candidate), ""),
            candidate.name,
            _describe_target(candidate),
            join_list(candidate.hosts),
            _describe_state(candidate, goes_to_file=goes_to_file),
        )
        for candidate in candidates
        if candidate.name
    ]
    if rows:
        titles = ("#", _("Server"), _("Command or URL"), _("From"), _("State"))
        # Programs that read the table expect the name first.
        start = 0 if sys.stdout.isatty() else 1
        print_table([row[start:] for row in rows], titles[start:], wrap=True)
    for candidate in candidates:
        if not candidate.name:
            print_note(candidate.reason)
        for note in candidate.found.notes:
            print_note(f"{candidate.name}: {translate_sentence(note)}")
        if candidate.state != "new" or candidate.server is None:
            continue
        lines = [f"  {translate_line(line)}" for line in candidate.other_settings]
        lines += [
            _("  Warning: {warning}").format(warning=translate_sentence(warning))
            for warning in server_warnings(candidate.server)
        ]
        if lines:  # importing approves these, too
            print_text("\n".join([candidate.name, *lines]))


def _describe_target(candidate: "ImportCandidate") -> str:
    """Return the command or URL of a server that could be imported.

    Runs of spaces are shown as visible marks, because they would be lost when the line is wrapped.
    """
    from mcphost.config.target_secrets import masked_argv, masked_url

    server = candidate.server
    if server is None:
        return ""
    target = join(masked_argv(server)) if server.is_stdio else masked_url(server)
    return re.sub(" {2,}", lambda run: _("⟨{count} spaces⟩").format(count=len(run.group())), target)


def _describe_state(candidate: "ImportCandidate", *, goes_to_file: bool) -> str:
    if candidate.reason:
        return translate_sentence(candidate.reason)
    parts = [_("new")]
    if candidate.found.is_disabled:
        parts.append(_("disabled there; stays disabled"))
    if candidate.secrets:
        text = _("secrets to the secrets file: {names}") if goes_to_file else _("secrets to the keyring: {names}")
        parts.append(text.format(names=join_list(candidate.secrets)))
    if candidate.server is not None and candidate.server.inputs:
        names = join_list(one.id for one in candidate.server.inputs)
        parts.append(_("asks for: {names}").format(names=names))
    return "; ".join(parts)


def _ask_which(candidates: "list[ImportCandidate]") -> "list[ImportCandidate]":
    """Ask the user which of the *candidates* to import, and return those.

    The user types names, numbers, "all", "none" or an empty line. If a word is unknown or ambiguous, the user
    is asked for more names, and the candidates chosen so far are kept. Returns an empty list at the end of the
    input. Raises UsageError if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "Nothing was imported. There is no way to ask: standard input is not a terminal.",
            "Read the list, then pass --yes, or --name NAME --yes.",
        )
    import termios

    chosen: list[ImportCandidate] = []
    prompt = _("Which ones to import and approve? Names or numbers separated by spaces, all, or none (Enter): ")
    while True:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        sys.stderr.write(prompt)
        sys.stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            return []
        if answer.strip().lower() in _NONE_WORDS:
            return []
        if answer.strip() == "all":
            return candidates
        known, unknown = find_chosen(answer.strip(), candidates)
        chosen = [candidate for candidate in candidates if candidate in chosen or candidate in known]
        if not unknown:
            return chosen
        prompt = _(
            "Not in the list, or not clear: {unknown}. Chosen: {names}. More names or numbers, Enter, or none: "
        ).format(unknown=join_list(unknown), names=join_list(one.name for one in chosen) or _("none"))


def find_chosen(answer: str, candidates: "Sequence[ImportCandidate]") -> "tuple[list[ImportCandidate], list[str]]":
    """Parse the user's answer; return the chosen candidates, and the words that do not match exactly one.

    The answer consists of names, and of numbers counted from 1. A name with spaces must be quoted, or be the whole
    answer. Ambiguous words match no candidate:

    - a number that is also the name of another candidate
    - an unquoted name whose words are themselves names or numbers
    - a name such as "all" or "none"
    """
    by_name = {
        candidate.name: candidate for candidate in candidates if candidate.name.lower() not in {"all", *_NONE_WORDS}
    }
    lexer = shlex(answer, posix=True, punctuation_chars="")
    lexer.whitespace += ","
    lexer.whitespace_split = True
    lexer.commenters = lexer.escape = ""
    try:
        words = list(lexer)
    except ValueError:  # a quote without its end
        words = re.split(r"[\s,]+", answer)
    words = list(filter(None, words))
    if answer in by_name and len(words) > 1:
        meant, _unknown = _find_words(words, candidates, by_name)
        return ([], [answer]) if meant else ([by_name[answer]], [])
    return _find_words(words, candidates, by_name)


def _find_words(
    words: "Sequence[str]", candidates: "Sequence[ImportCandidate]", by_name: "Mapping[str, ImportCandidate]"
) -> "tuple[list[ImportCandidate], list[str]]":
    """Return the candidates that the words match, and the words that do not match exactly one candidate.

    A word is a number counted from 1, or a name. *by_name* contains the candidates, keyed by name. An ambiguous word
    selects no candidate.
    """
    known: list[ImportCandidate] = []
    unknown: list[str] = []
    for word in words:
        index = int(word) - 1 if word.isascii() and word.isdecimal() and len(word) < 6 else -1
        meant = [candidates[index]] if 0 <= index < len(candidates) else []
        meant += [by_name[word]] if word in by_name and by_name[word] not in meant else []
        if len(meant) == 1:
            known += meant
        else:
            unknown.append(word)
    return known, unknown


def _candidate_json(candidate: "ImportCandidate") -> dict[str, Any]:
    from mcphost.config.target_secrets import masked_argv, masked_url
    from mcphost.host.servers.server_approval import server_warnings

    server = candidate.server
    target: dict[str, Any] = {}
    if server is not None:
        target = {"command": list(masked_argv(server))} if server.is_stdio else {"url": masked_url(server)}
    return {
        "name": candidate.name,
        "state": candidate.state,
        "reason": candidate.reason,
        "hosts": list(candidate.hosts),
        "disabled": candidate.found.is_disabled,
        "file": candidate.found.file,
        **target,
        "settings": list(candidate.other_settings),
        "warnings": [] if server is None else list(server_warnings(server)),
        "secrets": list(candidate.secrets),
        "inputs": [] if server is None else [one.id for one in server.inputs],
        "notes": list(candidate.found.notes),
    }


async def _export(options: "Options") -> int:
    """Print the configured servers as an `mcpServers` object, with `${env:NAME}` in place of each secret."""
    from mcphost.cli.command_runner import print_config_problems, unread_file_code
    from mcphost.cli.edit_servers import open_server_editor
    from mcphost.config.server_export import ExportedNames, export_entry

    async with open_server_editor(options) as (editor, config):
        names = ExportedNames(config.servers)
        entries = {server.name: export_entry(server, editor.read_entry(server), names) for server in config.servers}
    if unread_file_code(config):
        print_config_problems(config, options)
    print_json({"mcpServers": entries})
    return unread_file_code(config)
