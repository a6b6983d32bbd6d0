"""Formatting of `--help` text in the user's language.

Lines are wrapped correctly even if characters are two terminal columns wide, as in Chinese and Japanese.
"""

import argparse
import re
from collections.abc import Iterable, Mapping
from shutil import get_terminal_size
from typing import Any
from unicodedata import east_asian_width

from mcphost.translation import ENGLISH, N_, _, current_language

ARGPARSE_TEXTS = (
    N_("usage: "),
    N_("options"),
    N_("positional arguments"),
    N_("show this help message and exit"),
    N_("show program's version number and exit"),
)
"""Texts of argparse that appear on help pages."""

# Closing punctuation stays with the character before it, and ASCII words stay whole.
_PIECES = re.compile(r"\s+|[!-~]+|.[，。、；：？！）》”…]*")


_MIN_SUMMARY_WIDTH = 12


def describe_command(prog: str, summary: str, title: str, names: Mapping[str, str]) -> str:
    """Return a command's summary, followed by the subcommands in *names*, if any, under the heading *title*.

    *names* maps the name of each subcommand to a summary.
    """
    lines = [_("{command}: {summary}.").format(command=prog, summary=_(summary)) if " " in prog else _(summary)]
    if names:
        width = max(map(len, names)) + 2
        room = max(_MIN_SUMMARY_WIDTH, get_terminal_size().columns - width - 2)
        lines += ["", _(title)]
        for name, what in names.items():
            first, *more = wrap_cells(_(what), room)
            lines += [f"  {name:<{width}}{first}", *(" " * (width + 2) + line for line in more)]
    return "\n".join(lines)


class TranslatedHelp(argparse.HelpFormatter):
    """Help formatter that translates its text and measures the width of lines in terminal columns."""

    def add_usage(self, usage: str | None, actions: Any, groups: Any, prefix: str | None = None) -> None:
        """Add the usage line in the user's language."""
        super().add_usage(_(usage) if usage else usage, actions, groups, prefix or _("usage: "))

    def start_section(self, heading: str | None) -> None:
        """Begin a group of arguments with a translated heading."""
        super().start_section(_(heading) if heading else heading)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return _(action.help) if action.help and action.help is not argparse.SUPPRESS else action.help

    def _split_lines(self, text: str, width: int) -> list[str]:
        return super()._split_lines(text, width) if _is_english(text) else wrap_cells(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" in text:  # the lines of a description
            return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))
        if _is_english(text):
            return super()._fill_text(text, width, indent)
        return "\n".join(f"{indent}{line}" for line in wrap_cells(text, width - len(indent)))


def _is_english(text: str) -> bool:
    return current_language() == ENGLISH or text.isascii()


def wrap_cells(text: str, width: int) -> list[str]:
    """Break text into lines of at most *width* terminal columns; a word wider than that gets a line to itself."""
    lines = [""]
    used = 0
    for piece in _PIECES.findall(" ".join(text.split())):
        cells = count_wide_cells(piece)
        if used and used + cells > width:
            lines.append("")
            used = 0
        if used or not piece.isspace():
            lines[-1] += piece
            used += cells
    return [line.rstrip() for line in lines]


def count_wide_cells(text: Iterable[str]) -> int:
    """Return the width of *text* in terminal columns; *text* must not contain combining characters."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
