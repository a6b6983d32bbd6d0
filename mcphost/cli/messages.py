"""Command `messages`: print a message log that was saved on the messages page.

The command `call` prints messages with the functions of this module. They remove secrets, but do not sanitize the text.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mcphost.sanitize import sanitize
from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.http_log import LoggedExchange
    from mcphost.message_log import LoggedMessage


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `messages` command to *parser*."""
    parser.add_argument("file", metavar="FILE", help="a file that w on the messages page saved")


def run(command: str, args: argparse.Namespace) -> int:
    """Print the entries of a saved message log as `call --messages` prints them, oldest first, and return 0."""
    from mcphost.host.servers.saved_messages import read_saved_messages
    from mcphost.message_log import LoggedMessage

    entries = sorted(read_saved_messages(Path(os.path.expanduser(args.file))), key=lambda entry: entry.at)
    for entry in entries:
        for line in [format_message(entry)] if isinstance(entry, LoggedMessage) else format_exchange(entry):
            sys.stdout.write(f"{sanitize(line, keep_newlines=False)}\n")
    return 0


def format_message(message: "LoggedMessage") -> str:
    """Return a message with its direction in one line."""
    arrow, rest = "→" if message.direction == "sent" else "←", message.cut_bytes
    text = " ".join(message.to_text().splitlines())
    more = _(" … and {bytes:,} more bytes").format(bytes=rest) if rest else ""
    return f"{arrow} {text}{more}"


def format_exchange(exchange: "LoggedExchange", *, with_headers: bool = True) -> list[str]:
    """Return an HTTP exchange in one line; if *with_headers* is true, add a line for each header."""
    from mcphost.http_log import show_headers

    is_open = exchange.outcome == "open"
    head = exchange.head_seconds if is_open else exchange.seconds
    facts = [
        str(exchange.status) if exchange.status else "",
        exchange.content_type,
        "" if is_open else _("{bytes:,} bytes").format(bytes=exchange.response_size),
        "" if head is None else _("{count} ms").format(count=round(head * 1000)),
        {"open": _("still open"), "complete": "", "closed": _("closed by mcphost")}.get(
            exchange.outcome, exchange.error
        ),
    ]
    sign_in = "" if not exchange.sign_in else _("sign-in: {purpose}").format(purpose=exchange.sign_in)
    what = " ".join(filter(None, (exchange.verb, exchange.target, exchange.rpc_method, sign_in)))
    lines = [f"⇄ {what} {', '.join(filter(None, facts))}"]
    if with_headers:
        lines += [f"  > {name}: {value}" for name, value in show_headers(exchange.request_headers)]
        lines += [f"  < {name}: {value}" for name, value in show_headers(exchange.response_headers)]
    return lines
