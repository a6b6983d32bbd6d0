"""Command `messages`: print a message log that was saved on the messages page."""

import argparse
import os
import sys
from pathlib import Path

from mcphost.cli.message_lines import format_exchange, format_message
from mcphost.sanitize import sanitize


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
