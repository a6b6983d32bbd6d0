"""Command `audit`: list, show, verify and export the audit log."""

import argparse
import csv
import datetime as dt
import io
import re
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, TextIO

from mcphost.cli.colors import Excerpt, StateWord
from mcphost.cli.parser import build_options
from mcphost.cli.printing import create_output_file, print_json, print_note, print_table, print_text
from mcphost.errors import UsageError
from mcphost.pluralize import translate_count
from mcphost.sanitize import escape_formula, escape_unsafe_json, sanitize
from mcphost.translation import _, join_list, ngettext, translate_sentence

if TYPE_CHECKING:
    from mcphost.store.audit_reader import AuditFilter, AuditReader
    from mcphost.store.audit_store import AuditRow

_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `audit` command to *parser*."""
    parser.add_argument("action", nargs="?", choices=("list", "show", "verify", "export"), default="list",
                        help="what to do (default: list)")  # fmt: skip
    parser.add_argument(
        "what", nargs="?", metavar="ROW|FILE", help="show: the row's number; export: the file, or - for standard output"
    )
    parser.add_argument("--server", default="", metavar="NAME", help="only rows about this server")
    parser.add_argument("--kind", default="", metavar="KIND", help="only this kind, such as tool, process or trust")
    parser.add_argument(
        "--since", default="", metavar="T", help="only rows since a date, a date and time, yesterday, or 30m, 2h, 7d"
    )
    parser.add_argument(
        "--limit", type=int, default=100, metavar="N", help="list: at most this many of the newest rows (default: 100)"
    )
    parser.add_argument(
        "--format", choices=("jsonl", "csv"), help="export: the format, if not the one of FILE's ending"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `audit` action `list`, `show`, `verify` or `export` and return the exit code."""
    from mcphost import log
    from mcphost.cli.build_host import audit_files
    from mcphost.store.audit_reader import AuditFilter, AuditReader

    log.configure_logging(build_options(args).log_level)
    if args.action == "show" and not args.what:
        raise UsageError("Which row?", "mcphost audit show ROW; rows: mcphost audit")
    if args.action == "export" and not args.what:
        raise UsageError("To which file?", "mcphost audit export FILE, or - for standard output")
    if args.what and args.action not in ("show", "export"):
        raise UsageError(f"audit {args.action} takes no more arguments.", "mcphost audit show ROW")
    if not 0 < args.limit <= 1_000_000:
        raise UsageError("--limit must be a number from 1 to 1000000.")
    reader = AuditReader(*audit_files())
    _check_kind(reader, args.kind)
    if args.action in ("list", "export"):
        _check_server(reader, args)
    query = AuditFilter(server=args.server, kind=args.kind, since=parse_since(args.since))
    match args.action:
        case "list":
            return _list(reader, query, args.limit, as_json=args.json)
        case "show":
            return _show(reader, args.what, as_json=args.json)
        case "verify":
            return _verify(reader, as_json=args.json)
        case _:
            return export_rows(reader, query, args.what, args.format or _find_format(args.what))


def _check_kind(reader: "AuditReader", kind: str) -> None:
    """Raise UsageError if *kind* is unknown and no row in the audit log has this kind.

    Rows written by an earlier version of mcphost may have kinds that this version does not define. An empty
    *kind* is always accepted.
    """
    from mcphost.host.audit.audit_labels import KIND_LABELS
    from mcphost.store.audit_reader import AuditFilter, unknown_kind_error

    if kind and kind not in KIND_LABELS and not reader.page(AuditFilter(kind=kind), 1):
        raise unknown_kind_error(kind, KIND_LABELS)


def _check_server(reader: "AuditReader", args: argparse.Namespace) -> None:
    """Raise UsageError if the `--server` server is in neither the audit log nor the configuration.

    The log may contain servers that are no longer configured. Raises ConfigError if the configuration cannot be
    read.
    """
    from mcphost.store.audit_reader import AuditFilter

    if not args.server or reader.page(AuditFilter(server=args.server), 1):
        return
    import anyio

    from mcphost.cli.build_host import load_approved_configuration
    from mcphost.cli.command_runner import require_server

    async def check() -> None:
        require_server(await load_approved_configuration(build_options(args, one_shot=False)), args.server)

    anyio.run(check)


def parse_since(text: str) -> int:
    """Convert the value of `--since` to microseconds since 1970; empty text becomes 0.

    *text* is a date, a date and time, `today`, `yesterday`, or an age such as `2h`. Raises UsageError
    for any other text.
    """
    if not text:
        return 0
    now = dt.datetime.now().astimezone()
    if match := re.fullmatch(r"(\d{1,6})([mhdw])", text):
        return round((now - dt.timedelta(seconds=int(match[1]) * _UNIT_SECONDS[match[2]])).timestamp() * 1_000_000)
    try:
        return round(dt.datetime.fromisoformat(text).astimezone().timestamp() * 1_000_000)
    except (ValueError, OverflowError) as error:
        from mcphost.store.message_search import parse_time

        if (moment := parse_time(text, now.timestamp())) is not None:  # the words of `sessions search after:`
            return round(moment * 1_000_000)
        raise UsageError(
            f"{text!r} is not a time.", "Use a form such as 2026-11-21, 2026-11-21T14:00, yesterday, 30m, 2h or 7d."
        ) from error


def _list(reader: "AuditReader", query: "AuditFilter", limit: int, *, as_json: bool) -> int:
    from mcphost.store.audit_reader import to_export

    rows = reader.page(query, limit)
    if as_json:
        print_json({"rows": [to_export(row) for row in rows]})
        return 0
    print_table(
        [_table_cells(row) for row in rows], (_("Row"), _("Time"), _("Kind"), _("Event"), _("Subject"), _("Details"))
    )
    if not rows:
        print_note(_("Nothing is recorded."))
    return 0


def _table_cells(row: "AuditRow") -> tuple[str, ...]:
    from mcphost.host.audit.audit_labels import kind_label, outcome_label, source_label

    more = [
        _("by {who}").format(who=source_label(row.who)) if row.who else "",
        _("{number} ms").format(number=row.duration) if row.duration else "",
    ]
    outcome = outcome_label(row.kind, row.event, row.decision)
    kind = kind_label(row.kind) if row.kind == "ledger" else row.kind  # the others are names for `--kind`
    return (str(row.seq), format_time(row.at), kind, outcome, Excerpt(f"{row.server} {row.subject}".strip()[:80]),
            join_list(part for part in more if part))  # fmt: skip


def format_time(at: int) -> str:
    """Format a time in microseconds since 1970 as local time, or as a plain number if it is out of range."""
    try:
        return dt.datetime.fromtimestamp(at / 1_000_000).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return str(at)


def _show(reader: "AuditReader", row_number: str, *, as_json: bool) -> int:
    from mcphost.store.audit_reader import to_export

    row = reader.row(int(row_number)) if row_number.isdecimal() and len(row_number) < 16 else None
    if row is None:
        raise UsageError(f"There is no row {row_number!r}.", "List them with: mcphost audit")
    findings = reader.check_row(row.seq)
    problems = [finding.text for finding in findings]
    if as_json:
        print_json({**to_export(row), **({"problems": problems} if problems else {})})
    else:
        fields = [
            (StateWord(name), format_time(row.at) if name == "at" else str(value))
            for name, value in to_export(row).items()
            if value != ""
        ]
        marks = [(StateWord("failed"), translate_sentence(text)) for text in problems]
        print_table([*marks, *fields], wrap=True)
    return 5 if any(finding.what in ("edited", "moved", "unlinked", "head") for finding in findings) else 0


def _verify(reader: "AuditReader", *, as_json: bool) -> int:
    from mcphost.headless.json_output import verification_json

    verification = reader.verify()
    if as_json:
        print_json(verification_json(verification))
    elif verification.is_intact:
        print_text(
            ngettext("{rows:,} row is unchanged.", "All {rows:,} rows are unchanged.", verification.rows).format(
                rows=verification.rows
            )
        )
        print_text(
            _("The last one is {seq}, with the hash {hash}").format(
                seq=verification.reached.seq, hash=verification.reached.hash
            )
        )
    else:
        for finding in verification.findings:
            print_text(translate_sentence(finding.text))
        text = (
            _("The check read {rows} and ended early.")
            if verification.stopped
            else _("The check read {rows}, up to the end of the log.")
        )
        print_text(text.format(rows=translate_count(verification.rows, "row")))
    return 0 if verification.is_intact else 5


def export_rows(reader: "AuditReader", query: "AuditFilter", target: str, file_format: str) -> int:
    """Export the rows that match *query* to a new file, or to stdout if *target* is `-`; return 0.

    *file_format* is `csv` or `jsonl`. The number of rows is printed to stderr. Raises UsageError if the file exists or
    cannot be written.
    """
    if target == "-":
        count = write_rows(reader, query, sys.stdout, file_format)
    else:
        with (
            create_output_file(target) as file,
            io.TextIOWrapper(file, encoding="utf-8", newline="") as out,
        ):
            count = write_rows(reader, query, out, file_format)
    print_note(_("{count:,} rows.").format(count=count))
    return 0


def _find_format(target: str) -> str:
    """Return the export format for the suffix of the file name *target*, or "jsonl" if there is no suffix.

    Raises UsageError for any suffix other than `.csv` and `.jsonl`.
    """
    ending = PurePath(target).suffix.lower()
    if ending not in ("", ".jsonl", ".csv"):
        raise UsageError(f"{target} does not end with .jsonl or .csv.", "To write it anyway, add --format.")
    return "csv" if ending == ".csv" else "jsonl"


def write_rows(reader: "AuditReader", query: "AuditFilter", out: TextIO, file_format: str) -> int:
    """Write the rows that match *query* to *out*, and return the number of rows.

    *file_format* is "csv" for CSV or "jsonl" for JSON Lines.
    """
    from mcphost.serialization import dumps
    from mcphost.store.audit_reader import to_export
    from mcphost.store.audit_store import FIELDS

    if file_format == "csv":
        lines = csv.writer(out, quoting=csv.QUOTE_ALL)
        lines.writerow(("v", *FIELDS))
        return reader.export(query, lambda row: lines.writerow([_csv_cell(value) for value in to_export(row).values()]))
    # Still valid JSON, but with control characters escaped, so that it is safe to show on a terminal.
    return reader.export(query, lambda row: out.write(escape_unsafe_json(dumps(to_export(row))) + "\n"))


def _csv_cell(value: object) -> object:
    """Return *value*, made safe for a CSV cell.

    Text that a spreadsheet would run as a formula gets a leading apostrophe, even if the formula follows blanks or uses
    full-width characters. Semicolons become full-width, because some spreadsheets treat them as separators even inside
    quotes. Hidden characters are replaced with visible marks.
    """
    if not isinstance(value, str):
        return value
    return escape_formula(sanitize(value, keep_newlines=False).replace(";", "；"))
