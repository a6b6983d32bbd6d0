"""Command `sessions`: lists, searches, shows, exports, renames, deletes and salvages saved conversations."""

import argparse
import os
import re
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from mcphost.cli.parser import build_options
from mcphost.cli.printing import (
    print_dim,
    print_json,
    print_markdown,
    print_note,
    print_table,
    print_text,
    write_output_file,
)
from mcphost.errors import UsageError
from mcphost.local_time import format_moment
from mcphost.pluralize import translate_count
from mcphost.sanitize import sanitize
from mcphost.translation import N_, _, ngettext, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.host.conversation.export import ExportFormat
    from mcphost.host.conversation.stored_conversations import StoredConversations
    from mcphost.llm.messages import ToolReturnPart
    from mcphost.store.conversations import ConversationInfo
    from mcphost.store.message_search import FoundConversation, MarkedText
    from mcphost.store.salvage import SalvageReport

ACTIONS = ("list", "search", "show", "export", "rename", "delete", "salvage")
INDEXING_SECONDS = 20.0
"""Maximum number of seconds that `search` spends indexing older conversations before it searches."""
_LISTED = 100
_EXCLUDED_WORD = re.compile(r"-(?!-|[ho]?$)")
"""Matches the beginning of a word that a search leaves out; `-h` and `-o` are options."""
ROLES = (N_("user"), N_("assistant"), N_("system"))
"""Roles of messages, which are translated when they are shown."""


def add_arguments(command: str, parser: "CommandParser") -> None:
    """Add the arguments of the `sessions` command to *parser*."""
    parser.prepare = _protect_excluded_words
    parser.add_argument("action", nargs="?", choices=ACTIONS, default="list", help="what to do (default: list)")
    parser.add_argument(
        "id",
        nargs="?",
        metavar="ID|TEXT|FILE",
        help="the beginning of an id; search: the text to find; salvage: the damaged database file",
    )
    parser.add_argument("rest", nargs="*", metavar="WORD", help="search: more words; rename: the new title")
    parser.add_argument(
        "--format", choices=("markdown", "json", "html"), help="export: the format, if not the one of FILE's ending"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="export: the new file to write")
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help="search: only messages from then on; a date such as 2026-01-31, today, yesterday, or an age such as 7d",
    )
    parser.add_argument("--until", metavar="WHEN", help="search: only messages from before then")
    parser.add_argument("--yes", action="store_true", help="delete: do not ask for confirmation")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _protect_excluded_words(arguments: list[str]) -> list[str]:
    """Put a space before each search word that begins with `-`, so that the word is not parsed as an option."""
    if next((word for word in arguments if not word.startswith("-")), "") != "search":
        return arguments
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [f" {word}" if at < end and _EXCLUDED_WORD.match(word) else word for at, word in enumerate(arguments)]


def run(command: str, args: argparse.Namespace) -> int:
    """Run the selected action on saved conversations and return the exit code."""
    from mcphost.cli.command_runner import remove_model, run_command

    _check_arguments(args)
    args.format = args.format or _default_format(args)
    options = build_options(args, one_shot=False)

    async def work() -> int:
        from mcphost.cli.build_host import open_host
        from mcphost.host.questions.frontend import RefusingFrontend

        async with open_host(options, RefusingFrontend(), adjust_config=remove_model) as host:
            if args.action == "list":
                return await _list(host.history, options, as_json=args.json)
            if args.action == "search":
                return await _search(host.history, options, _make_query(args), as_json=args.json)
            if args.action == "salvage":
                return await _salvage(host.history, Path(args.id), options, as_json=args.json)
            info = await host.history.find(args.id)
            match args.action:
                case "export":
                    return await _export(host.history, info, args, options)
                case "rename":
                    return await _rename(host.history, info, " ".join(args.rest), as_json=args.json)
                case "delete":
                    return await _delete(host.history, info, yes=args.yes, as_json=args.json)
                case _:
                    return await _show(host.history, info, as_json=args.json)

    return run_command(options, work)


def _check_arguments(args: argparse.Namespace) -> None:
    """Raise UsageError if the arguments are not valid for the action."""
    action = args.action
    if action == "list" and args.id:
        raise UsageError("sessions list takes no id.", f"To see it: mcphost sessions show {quote(args.id)}")
    if (args.since or args.until) and action != "search":
        raise UsageError("--since and --until belong to: mcphost sessions search TEXT.")
    if action == "search" and not (args.id or args.since or args.until):
        raise UsageError("What to search for?", "mcphost sessions search TEXT")
    if action == "salvage" and not args.id:
        raise UsageError(
            "Name the damaged database file.",
            "Run: mcphost sessions salvage FILE. The file is named like mcphost.db.damaged-DATE.",
        )
    if action not in ("list", "search") and not args.id:
        raise UsageError("Which conversation?", f"mcphost sessions {quote(action)} ID; ids: mcphost sessions list")
    if action == "rename" and not args.rest:
        raise UsageError("Which title?", "mcphost sessions rename ID TITLE")
    if args.rest and action == "salvage":
        raise UsageError("sessions salvage takes one file.", "Run it once for each file.")
    if args.rest and action not in ("search", "rename"):
        raise UsageError(f"sessions {action} takes one id.", "Run it once for each conversation.")
    if (args.format or args.output) and action != "export":
        raise UsageError("--format and -o belong to: mcphost sessions export ID.")


def _make_query(args: argparse.Namespace) -> str:
    """Return the search text, with filters for the times in `--since` and `--until` added.

    Raises UsageError for an invalid time.
    """
    import time

    from mcphost.store.message_search import parse_time

    words = [args.id or "", *args.rest]
    for option, field, value in (("--since", "after", args.since), ("--until", "before", args.until)):
        if value and parse_time(value, time.time()) is None:
            raise UsageError(
                f"{option} {value} is not a date or an age.", "Write it as 2026-01-31, today, yesterday or 7d."
            )
        words += [f"{field}:{value.strip()}"] if value else []
    return " ".join(words)


def _default_format(args: argparse.Namespace) -> "ExportFormat":
    """Return the export format for the suffix of the `-o FILE` name, or Markdown if the name has no suffix.

    Without a file, the format is JSON with `--json`, otherwise Markdown. Raises UsageError for an unknown suffix.
    """
    from pathlib import PurePath

    from mcphost.host.conversation.export import find_format

    if not args.output:
        return "json" if args.json else "markdown"
    found = find_format(args.output)
    if found is None and PurePath(args.output).suffix:
        raise UsageError(f"{args.output} does not end with .md, .html or .json.", "To write it anyway, add --format.")
    return found or "markdown"


async def _list(history: "StoredConversations", options: "Options", *, as_json: bool) -> int:
    from mcphost.serialization import to_builtins

    rows = await history.list_recent(_LISTED)
    if as_json:
        print_json({"sessions": [to_builtins(row) for row in rows]})
        return 0
    cells = [
        (
            row.id,
            format_moment(row.updated),
            translate_count(row.messages, "message"),
            f"{'* ' if row.is_pinned else ''}{row.title}",
        )
        for row in rows
    ]
    print_table(cells, (_("ID"), _("Updated"), _("Messages"), _("Title")))
    if not rows and not options.quiet:
        print_note(_("There are no saved conversations yet."))
    return 0


async def _search(history: "StoredConversations", options: "Options", text: str, *, as_json: bool) -> int:
    import anyio

    from mcphost.serialization import to_builtins

    if await history.count_pending():
        with anyio.move_on_after(INDEXING_SECONDS):
            await history.index_pending(pause=0)
    result = await history.search(text)
    if as_json:
        print_json(to_builtins(result))
        return 0
    if not options.quiet:
        for note in result.notes:
            print_note(note)
    for found in result.conversations:
        print_text(found.title)
        print_dim(f"{found.id} · {format_moment(found.updated)} · {_count_hits(found, is_complete=result.is_complete)}")
        for hit in found.hits:
            print_text(f"  {_(hit.role)}: {mark_excerpt(hit.excerpt)}")
    if not result.conversations and not options.quiet:
        print_note(_("Nothing was found."))
    return 0


def _count_hits(found: "FoundConversation", *, is_complete: bool) -> str:
    hits = translate_count(found.count, "hit")
    return hits if is_complete else _("at least {hits}").format(hits=hits)


def mark_excerpt(excerpt: "tuple[MarkedText, ...]") -> str:
    """Return a search excerpt as one line of plain text, with all matches marked as »match«."""
    return sanitize("".join(f"»{text}«" if is_match else text for text, is_match in excerpt), keep_newlines=False)


async def _export(
    history: "StoredConversations", info: "ConversationInfo", args: argparse.Namespace, options: "Options"
) -> int:
    from mcphost.host.conversation.export import export_conversation

    prompt = await history.load_system_prompt(info.id)
    calls = await history.load_manual_calls(info.id)
    messages = await history.load(info.id)
    text = export_conversation(info, messages, args.format, system_prompt=prompt, manual_calls=calls)
    if not args.output:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return 0
    write_output_file(args.output, text.encode("utf-8", "replace"))
    if args.json:
        print_json({"id": info.id, "format": args.format, "file": args.output})
    elif not options.quiet:
        print_note(_("Wrote {file}.").format(file=args.output))
    return 0


async def _rename(history: "StoredConversations", info: "ConversationInfo", title: str, *, as_json: bool) -> int:

    await history.rename(info.id, title)
    if as_json:
        print_json({"id": info.id, "title": (await history.find(info.id)).title})
    else:
        print_note(_("Renamed {id}.").format(id=info.id))
    return 0


async def _delete(history: "StoredConversations", info: "ConversationInfo", *, yes: bool, as_json: bool) -> int:
    from mcphost.cli.terminal_frontend import Confirmation

    review = Confirmation(yes=yes, as_json=as_json)
    messages = translate_count(info.messages, "message")
    review.show(info.title, f"{info.id}, {messages}, {format_moment(info.updated)}")
    review.confirm("Delete it with its branches, drafts and stored results?", "Nothing was deleted.")
    await history.delete(info.id)
    await history.purge_index()
    if as_json:
        print_json({"id": info.id, "deleted": True})
    else:
        print_note(
            _("Deleted {id}. The audit log keeps its records, which have digests of the texts only.").format(id=info.id)
        )
    return 0


async def _salvage(history: "StoredConversations", file: Path, options: "Options", *, as_json: bool) -> int:
    """Copy the readable conversations of *file*, a damaged database, into the store of conversations.

    Return the exit code: 0, or 1 if the file contains no readable conversation.
    """
    from mcphost.serialization import to_builtins

    _check_salvaged_file(file)
    report = await history.salvage(file, mark=_("salvaged"))
    is_empty = not report.conversations and not report.present
    if as_json:
        print_json({"file": str(file), **to_builtins(report)})
        return int(is_empty)
    if not report.readable_rows:
        _print_unreadable(file, options)
        return int(is_empty)
    copies = [one for one in report.listed if one.is_new]
    cells = [(one.id, str(one.messages), str(one.lost), one.title) for one in copies]
    print_table(cells, (_("ID"), _("Messages"), _("Lost"), _("Title")))
    if not options.quiet:
        _print_salvaged(report, len(copies))
    return int(is_empty)


def _check_salvaged_file(file: Path) -> None:
    """Raise UsageError if *file* is the database in use."""
    from mcphost import paths
    from mcphost.store.database import SALVAGE_HINT

    used = paths.database_file()
    if os.path.exists(file) and os.path.exists(used) and os.path.samefile(file, used):
        raise UsageError(f"{file} is the database in use.", SALVAGE_HINT)


def _print_unreadable(file: Path, options: "Options") -> None:
    from mcphost import paths

    print_note(_("{file} holds no readable page of a conversation store.").format(file=file))
    if options.quiet:
        return
    name = f"{paths.database_file()}.damaged-DATE"
    print_note(_("Name a damaged store, such as {name}, or restore a backup.").format(name=name))


def _print_salvaged(report: "SalvageReport", listed: int) -> None:
    if report.conversations > listed:
        more = report.conversations - listed
        text = ngettext(
            "{count:,} more is listed by: mcphost sessions", "{count:,} more are listed by: mcphost sessions", more
        )
        print_note(text.format(count=more))
    back, messages = translate_count(report.conversations, "conversation"), translate_count(report.messages, "message")
    print_note(_("Added as copies: {conversations} with {messages}.").format(conversations=back, messages=messages))
    if report.present:
        present = translate_count(report.present, "conversation")
        print_note(_("Already in the store: {conversations}.").format(conversations=present))
    if report.lost_messages:
        lost = translate_count(report.lost_messages, "message")
        print_note(_("Lost: at least {messages}.").format(messages=lost))
    else:
        print_note(_("No lost messages were found."))
    if report.lost_conversations:
        unreadable = translate_count(report.lost_conversations, "conversation")
        print_note(_("Nothing could be read of {conversations}.").format(conversations=unreadable))
    print_note(
        _(
            "Only conversations were copied, not permissions or costs. The audit log is a separate file and is not "
            "changed."
        )
    )


async def _show(history: "StoredConversations", info: "ConversationInfo", *, as_json: bool) -> int:
    from mcphost.serialization import to_builtins

    messages = await history.load(info.id)
    if as_json:
        print_json({**to_builtins(info), "messages": [to_builtins(message) for message in messages]})
        return 0
    print_text(info.title)
    print_dim(f"{format_moment(info.created)}, {info.model or _('no model')}")
    for message in messages:
        _print_message(message)
    return 0


def _print_message(message: Any) -> None:
    from mcphost.host.message_text import describe_author
    from mcphost.llm.messages import FilePart, ImagePart, ResourcePart, TextPart, ToolReturnPart, ToolUsePart
    from mcphost.serialization import dumps

    author = translate_sentence(describe_author(message)) or _(message.role)
    print_dim(f"\n[{_('{author}, stopped').format(author=author) if message.cut else author}]")
    for part in message.parts:
        match part:
            case TextPart():
                print_markdown(part.text)
            case ToolUsePart():
                arguments = part.raw if part.arguments is None else dumps(part.arguments)
                print_text(_("calls {tool} {arguments}").format(tool=part.name, arguments=arguments))
            case ToolReturnPart():
                print_text(_outcome_text(part).format(tool=part.name, text=part.text))
            case ResourcePart() if part.use_id:
                print_text(_("{tool} gave: {text}").format(tool=part.source, text=part.text))
            case ResourcePart():
                text = _("attached {uri} of {server}") if part.server else _("attached {uri}")
                print_text(text.format(uri=part.uri, server=part.server))
            case ImagePart():
                print_text(
                    _("attached {name}").format(name=part.name)
                    if part.name
                    else _("an image ({mime_type})").format(mime_type=part.mime_type)
                )
            case FilePart():
                print_text(_("attached {name}").format(name=part.name))
            case _:
                pass


def _outcome_text(part: "ToolReturnPart") -> str:
    """Return text that describes the outcome of a tool call.

    The caller must replace the placeholders {tool} and {text} in the returned text. For a call that an old version of
    mcphost recorded, the text states only whether the call failed, because those versions recorded nothing else.
    """
    return {
        "ok": _("{tool} gave: {text}"),
        "declined": _("{tool} was declined: {text}"),
        "stopped": _("{tool} was stopped: {text}"),
        "background": _("{tool} went on: {text}"),
    }.get(part.outcome, _("{tool} failed: {text}") if part.is_error else _("{tool} gave: {text}"))
