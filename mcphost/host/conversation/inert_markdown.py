"""Conversion of untrusted Markdown to readable Markdown that is safe to embed in a document.

The result loads no external content, hides no text, and cannot be mistaken for another part of the document. Only code
that all renderers recognize as code is left unchanged: fenced blocks, which are closed here if necessary, and code
spans within one line. An indented code block outside of a list becomes a fenced one. In all other text, images become
links, HTML becomes text, and headings become smaller.
"""

import re
from html import unescape

from mcphost.sanitize import is_sanitized, sanitize

_LOWERED_LEVELS = 2
"""Number of levels by which headings are lowered, so that they are below the headings of the document."""
_MAX_LEVEL = 6
_BLANKS = " \t"
_FENCE = re.compile(r"^([ \t]*+)(`{3,}+(?=[^`]*$)|~{3,}+)(.*)")
_INNER_FENCE = re.compile(r"`{3,}+(?=[^`]*$)|~{3,}+")
_HEADING = re.compile(r"^((?:[ \t]*+(?:>|[-*+]|\d{1,9}[.)]))*+[ \t]*+)(#{1,6})(?=[ \t]|$)")
"""A heading, which may be in quotes and items of lists; a line that is indented like code is lowered, too."""
_LIST_ITEM = re.compile(r"[ \t>]*+(?:[-*+]|\d{1,9}[.)])(?=[ \t]|$)")
_CODE_INDENT = 4
_UNDERLINE = re.compile(r"[ \t]*+(?:=+|-+)[ \t]*$")
_QUOTED_UNDERLINE = re.compile(r"((?:[ \t]*+>)++[ \t]*+)((?:=+|-+)[ \t]*)$")
_TABLE_RULE = re.compile(r"[ \t>|:\d.)*+-]+$")
_SIMPLE_TARGET = re.compile(r"\]\([^\s()`<>\"']*+\)")
_LINK_START = re.compile(r"\][(\[:]")
_BACKTICKS = re.compile(r"`++")
_HAZARD = re.compile(r"(?<!\\)\\*+(?:<(?!\s)|!(?=\[)|&(?:#[xX]?[0-9a-fA-F]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});)")
_DEFINITION = re.compile(r"(?<=\]):")
"""The colon of `[label]: address`: renderers do not show such a definition, but it turns `[label]` into a link."""
_SIGNS = re.compile(r"[\\`*\[\]<~]|&(?=[#A-Za-z])")

Spans = list[tuple[int, int]]


def make_inert(text: str) -> str:
    """Return Markdown that is safe to embed in a document.

    Images become links, HTML and link definitions become visible text, headings are lowered by two levels, and open
    code blocks are closed.
    """
    return "\n".join(_Converter().convert(sanitize(text).strip("\n").split("\n")))


def escape_line(text: str) -> str:
    """Return *text* as one line of Markdown in which no character has a special meaning."""
    return _SIGNS.sub(r"\\\g<0>", sanitize(text, keep_newlines=False)).replace("\\<", "&lt;")


class _Converter:
    """Converter of the lines of one text: copies code blocks, and collects other lines up to the next blank line."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._paragraph: list[str] = []
        self._fence = ""
        self._indent = 0
        self._is_in_list = False
        self._indented: list[str] = []
        """The lines of the open indented code block, without its indentation."""

    def convert(self, lines: list[str]) -> list[str]:
        """Return the lines of a text converted to Markdown that is safe to embed in a document."""
        for line in lines:
            if not ((self._fence and self._add_code(line)) or self._add_indented_code(line)):
                self._add_text(line)
        self._end_indented_code()
        self._end_paragraph()
        self._end_code()
        return self._out

    def _add_code(self, line: str) -> bool:
        """Add a line to the open code block; return False if the line is not part of it.

        An indented block also ends at a line with less indentation. A closing fence is written with the indentation of
        the block, because renderers may not recognize a fence that is indented further.
        """
        content = line.strip(_BLANKS)
        if self._indent and content:
            line = _expand_indentation(line)
            if not line.startswith(" " * self._indent):
                self._end_code()
                return False
        is_end = content.startswith(self._fence) and not content.strip(self._fence[0])
        if is_end and (self._indent or not line.startswith("    ")):
            self._fence = content
            self._end_code()
        else:
            self._out.append(line)
        return True

    def _end_code(self) -> None:
        if self._fence:
            self._out.append(f"{' ' * self._indent}{self._fence}")
            self._fence = ""

    def _add_indented_code(self, line: str) -> bool:
        """Add a line to an indented code block, or start one; return False if the line is not part of one.

        No block is started in a list, where the indentation may belong to the text of an item.
        """
        expanded = _expand_indentation(line)
        is_blank = not expanded.strip()
        is_indented = not is_blank and expanded.startswith(" " * _CODE_INDENT)
        if self._indented and not (is_blank or is_indented):
            self._end_indented_code()
            return False
        follows_text = bool(self._paragraph or (self._out and self._out[-1]))
        if not self._indented and (not is_indented or self._is_in_list or follows_text or _FENCE.match(line)):
            return False
        self._indented.append(expanded[_CODE_INDENT:])
        return True

    def _end_indented_code(self) -> None:
        if not self._indented:
            return
        code = "\n".join(self._indented)
        content = code.rstrip("\n")
        fence = "`" * max((3, *(len(run) + 1 for run in _BACKTICKS.findall(content))))
        self._out += [fence, *content.split("\n"), fence, *[""] * (len(code) - len(content))]
        self._indented = []

    def _add_text(self, line: str) -> None:
        if _LIST_ITEM.match(line):
            self._is_in_list = True
        elif not self._paragraph and line.strip(_BLANKS) and line[0] not in _BLANKS:
            self._is_in_list = False
        if fence := _FENCE.match(line):
            self._end_paragraph()
            self._indent, self._fence = len(fence[1].expandtabs(4)), fence[2]
            if self._indent > 3 and self._out and self._out[-1]:
                self._out.append("")  # without a blank line, it could continue a paragraph
            info = fence[3].replace("|", " ")  # with a bar, it could be the first line of a table
            self._out.append(f"{' ' * self._indent}{fence[2]}{info}")
        elif not line.strip(_BLANKS):
            self._end_paragraph()
            self._out.append("")
        else:
            if self._paragraph and _UNDERLINE.match(line):  # a blank line keeps it from making a heading
                self._end_paragraph()
                self._out.append("")
            if self._paragraph and (underline := _QUOTED_UNDERLINE.match(line)):  # a blank line would end the quote
                line = f"{underline[1]}\\{underline[2]}"
            line = _INNER_FENCE.sub(lambda match: "".join(f"\\{mark}" for mark in match[0]), line)
            self._paragraph.append(_HEADING.sub(_lower_heading, line, count=1) if _HEADING.match(line) else line)

    def _end_paragraph(self) -> None:
        for line, spans in zip(self._paragraph, _find_code_spans(self._paragraph), strict=True):
            start, shown = 0, ""
            for begin, end in (*spans, (len(line), len(line))):
                plain = _DEFINITION.sub(r"\\:", line[start:begin])
                shown += _HAZARD.sub(_escape, plain) + line[begin:end]
                start = end
            self._out.append(shown)
        self._paragraph = []


def _expand_indentation(line: str) -> str:
    content = line.lstrip(_BLANKS)
    return line[: len(line) - len(content)].expandtabs(4) + content


def _lower_heading(match: re.Match[str]) -> str:
    return match[1] + "#" * min(_MAX_LEVEL, len(match[2]) + _LOWERED_LEVELS)


def _escape(match: re.Match[str]) -> str:
    sign = match[0].lstrip("\\")
    count = len(match[0]) - len(sign)
    if sign == "<":  # an entity, because not every renderer knows this sign after a backslash
        return "\\" * (count - count % 2) + "&lt;"
    if count % 2 or (sign != "!" and is_sanitized(unescape(sign))):
        return match[0]
    return f"{match[0][:count]}\\{sign}"


def _find_code_spans(lines: list[str]) -> list[Spans]:
    """Return the code spans in each line of a paragraph, or none if renderers may disagree on their ends.

    Renderers agree on them if each span begins and ends within one line (or within one cell, if the paragraph may be a
    table), and if no backtick can be part of a link's target.
    """
    is_table = any("|" in line and "-" in line and _TABLE_RULE.match(line) for line in lines)
    found: list[Spans] = []
    for line in lines:
        spans = _pair_backticks(line)
        if spans is None:
            return [[] for _ in lines]
        ends, begins = (0, *(end for _, end in spans)), (*(begin for begin, _ in spans), len(line))
        rest = "".join(line[end:begin] for end, begin in zip(ends, begins, strict=True))
        if _LINK_START.search(_SIMPLE_TARGET.sub("", rest)) or (
            is_table and any("|" in line[begin:end] for begin, end in spans)
        ):
            return [[] for _ in lines]
        found.append(spans)
    return found


def _pair_backticks(line: str) -> Spans | None:
    """Return the code spans of a line; None if a run of backticks has no partner or follows a backslash."""
    spans: Spans = []
    begin = -1
    length = 0
    for run in _BACKTICKS.finditer(line):
        if run.start() and line[run.start() - 1] == "\\":
            return None
        if begin < 0:
            begin, length = run.start(), len(run[0])
        elif len(run[0]) == length:
            spans.append((begin, run.end()))
            begin = -1
    return None if begin >= 0 else spans
