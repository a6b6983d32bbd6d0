"""Reads the front matter of a SKILL.md and compares it with the JSON that a server says it is.

Front matter is YAML from a stranger. This reads the part of YAML that people write there: block and flow collections,
plain, quoted and block scalars, comments. Anchors, aliases, tags, directives and complex keys are refused, so nothing
can grow while it is read; a document that is refused costs its skill and nothing else.
"""

import re
from typing import Any, cast

from mcphost.errors import MalformedMessage
from mcphost.protocol.flow_yaml import REFUSED, Flow, Plain, folded

SIZE = 64 * 1024
DEPTH = 16
NODES = 2_000
LINES = 5_000
_FENCE = re.compile(r"---[ \t]*")
_END = re.compile(r"(?:---|\.\.\.)[ \t]*")
_BLOCK = re.compile(r"[|>](?:([1-9])([+-])?|([+-])([1-9])?)?[ \t]*(?:[ \t]#.*)?")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NUMBER = re.compile(
    r"[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|(?:\d[\d_]*+(?:(?<=\d)|\.\d+)|\.\d+)(?:[eE][-+]?\d+)?|\d[\d_]*+\.)"
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MIDNIGHT = re.compile(r"T00:00:00(?:\.0+)?Z?")
_QUOTED_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[ \t]*:(?:[ \t]+|$)""")


def read(document: str) -> dict[str, Any]:
    """The front matter a text begins with. Raises MalformedMessage, whatever the text is.

    Values are dicts, lists, str for what is quoted, and Plain for what is not.
    """
    lines = re.split(r"\r\n|\r|\n", document.removeprefix("\ufeff")[: SIZE + 8])
    if not lines or not _FENCE.fullmatch(lines[0]):
        raise MalformedMessage("It does not begin with front matter.")
    end = next((number for number, line in enumerate(lines[1:], 1) if _END.fullmatch(line)), 0)
    if not end:
        raise MalformedMessage(f"Its front matter does not end within {SIZE // 1024} kB.")
    if end > LINES:
        raise MalformedMessage(f"Its front matter has more than {LINES:,} lines.")
    return _Reader(lines[1:end]).document()


def difference(found: Any, said: Any, where: str = "") -> str:
    """Where what was read is not what a server said, as a path of fields; empty when both are the same.

    A plain scalar is the same as every value that some version of YAML reads it as.
    """
    if isinstance(found, dict) and isinstance(said, dict):
        ours, theirs = cast("dict[str, Any]", found), cast("dict[str, Any]", said)
        for key in (*ours, *theirs):
            name = f"{where}.{key}" if where else key
            if key not in ours or key not in theirs:
                return name
            if deeper := difference(ours[key], theirs[key], name):
                return deeper
        return ""
    if isinstance(found, list) and isinstance(said, list):
        items, claimed = cast("list[Any]", found), cast("list[Any]", said)
        if len(items) != len(claimed):
            return where
        pairs = enumerate(zip(items, claimed, strict=True))
        return next((deeper for n, (a, b) in pairs if (deeper := difference(a, b, f"{where}[{n}]"))), "")
    same = _is(found.text, said) if isinstance(found, Plain) else isinstance(found, str) and found == said
    return "" if same else where or "the front matter"


def _is(text: str, said: Any) -> bool:
    if isinstance(said, str):
        # Some versions of YAML make a day of it, and write that as a time.
        return said == text or bool(_DATE.fullmatch(text) and said.startswith(text) and _MIDNIGHT.fullmatch(said[10:]))
    if said is None or isinstance(said, bool):
        return text in _CONSTANTS and _CONSTANTS[text] is said
    if not isinstance(said, int | float) or not _NUMBER.fullmatch(text):
        return False
    plain = text.replace("_", "").lower()
    try:
        return said == (int(plain, 0) if "x" in plain or "o" in plain else float(plain))
    except (ValueError, OverflowError):
        return False


class _Reader:
    """A cursor over lines; every method leaves it behind what it read."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0
        self._nodes = 0

    def document(self) -> dict[str, Any]:
        value = self._block(0, 0)
        if self._next() is not None:
            raise self._fault("cannot be understood here")
        if not isinstance(value, dict):
            raise MalformedMessage("Its front matter is no list of fields.")
        return cast("dict[str, Any]", value)

    # -- blocks
    def _next(self) -> tuple[int, str] | None:
        """The next line with something on it: how far in it stands, and its text."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.lstrip(" ")
            if text and not text.startswith("#") and text.strip():
                if text.startswith("\t"):
                    raise self._fault("is indented by tabs")
                return len(line) - len(text), text.rstrip()
            self._at += 1
        return None

    def _block(self, least: int, depth: int) -> Any:
        """A block that stands at least so far in; an empty Plain when there is none."""
        self._count(depth)
        line = self._next()
        if line is None or line[0] < least:
            return Plain("")
        indent, text = line
        if text == "-" or text.startswith("- "):
            return self._sequence(indent, depth)
        if _key(text) is not None:
            return self._mapping(indent, depth)
        return self._scalar(text, least, depth)

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._next()) is not None and line[0] == indent:
            split = _key(line[1])
            if split is None:
                raise self._fault("is no field")
            name, rest = split
            if name in found or name in ("<<", "~"):
                raise self._fault(f"has the field {name[:60]!r} twice, or one that is no name")
            found[name] = self._value(rest, indent, depth, sequences=indent)
        if (line := self._next()) is not None and line[0] > indent:
            raise self._fault("stands too far in")
        return found

    def _sequence(self, indent: int, depth: int) -> list[Any]:
        found: list[Any] = []
        while (line := self._next()) is not None and line[0] == indent and (line[1] == "-" or line[1].startswith("- ")):
            rest = line[1][1:].lstrip(" ")
            inner = indent + len(line[1]) - len(rest)
            if rest and not rest.startswith("#") and (_key(rest) is not None or rest == "-" or rest.startswith("- ")):
                # What follows the dash is a block of its own that begins on this line.
                self._lines[self._at] = " " * inner + rest
                found.append(self._block(inner, depth + 1))
            else:
                found.append(self._value(rest, indent, depth, sequences=indent + 1))
        return found

    def _value(self, rest: str, indent: int, depth: int, *, sequences: int) -> Any:
        """What stands behind a key or a dash; `sequences` is how far in a list below it must stand."""
        if rest and not rest.startswith("#"):
            return self._scalar(rest, indent + 1, depth + 1)
        self._at += 1
        line = self._next()
        if line is not None and line[0] == sequences and (line[1] == "-" or line[1].startswith("- ")):
            return self._block(sequences, depth + 1)
        return self._block(indent + 1, depth + 1)

    # -- scalars and flow collections
    def _scalar(self, text: str, least: int, depth: int) -> Any:
        """A value that begins on this line and may go on below, at least so far in."""
        self._count(depth)
        if text[0] in REFUSED:
            raise self._fault(f"uses {text[0]!r}, which mcphost does not read")
        self._at += 1
        if text[0] in "|>":
            return self._literal(text, least)
        if text[0] in "\"'[{":
            return self._flow(text, least, depth)
        parts = [_plain(text)]
        # A plain scalar goes on as long as lines stand further in than its key; a comment ends it.
        while parts[-1] == text and self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip()
            if text and (text.startswith("#") or len(line) - len(line.lstrip(" ")) < least):
                break
            if text and _key(text) is not None:
                raise self._fault("has a colon inside of a text without quotes")
            parts.append(_plain(text))
            self._at += 1
        while not parts[-1]:
            parts.pop()
        return Plain(folded(parts))

    def _literal(self, head: str, least: int) -> str:
        match = _BLOCK.fullmatch(head)
        if match is None:
            raise self._fault("has an unknown kind of text block", back=1)
        given = match[1] or match[4]
        chomp = match[2] or match[3] or ""
        body: list[str] = []
        begin = self._at
        indent = least - 1 + int(given) if given else 0
        while self._at < len(self._lines):
            line = self._lines[self._at]
            stands = len(line) - len(line.lstrip(" "))
            if line.strip(" "):
                if not indent and any(len(blank) > stands for blank in self._lines[begin : self._at]):
                    raise self._fault("stands less far in than the empty lines before it")
                indent = indent or stands
                if stands < max(indent, least):
                    break
            body.append(line[indent:] if indent else "")
            self._at += 1
        text = "\n".join(body) if head[0] == "|" else _folded_block(body)
        whole = text.rstrip("\n")
        if chomp == "+":
            return text + "\n" if body else ""
        return whole + "\n" if not chomp and whole else whole

    def _flow(self, text: str, least: int, depth: int) -> Any:
        """A quoted text or a flow collection, over as many lines as it takes."""
        flow = Flow(text, lambda: self._more(least), self._count)
        value = flow.value(depth)
        if not re.fullmatch(r"[ \t]*(?:[ \t]#.*)?", flow.rest):
            raise self._fault("goes on behind its end", back=1)
        return value

    def _more(self, least: int) -> str:
        """The next line of a flow value; it stands at least so far in, or is empty."""
        if self._at >= len(self._lines):
            raise self._fault("does not end", back=1)
        line = self._lines[self._at]
        if line.strip() and len(line) - len(line.lstrip(" ")) < least:
            raise self._fault("does not end", back=1)
        self._at += 1
        return line.strip(" \t")

    # -- bounds and faults
    def _count(self, depth: int) -> None:
        self._nodes += 1
        if self._nodes > NODES or depth > DEPTH:
            raise MalformedMessage(f"Its front matter is deeper than {DEPTH} levels or has over {NODES:,} values.")

    def _fault(self, what: str, back: int = 0) -> MalformedMessage:
        return MalformedMessage(f"Line {self._at - back + 2} of its front matter {what}.")


def _key(text: str) -> tuple[str, str] | None:
    """A field's name and what stands behind its colon; None when the line begins no field."""
    if text[0] in "\"'":
        match = _QUOTED_KEY.match(text)
        return None if match is None else (_unquoted(match[1]), text[match.end() :])
    if text[0] in "[]{},|>#" + REFUSED or text == "-" or text.startswith("- "):
        return None
    colons = [at for end in (": ", ":\t") if (at := text.find(end)) > 0]
    at = min(colons, default=len(text) - 1 if text.endswith(":") else 0)
    if at <= 0 or " #" in text[:at]:
        return None
    return text[:at].rstrip(), text[at + 1 :].strip(" \t")


def _unquoted(text: str) -> str:
    def nothing() -> str:
        raise MalformedMessage("Its front matter has a field whose name does not end.")

    return str(Flow(text, nothing, lambda depth: None).value(0))


def _plain(text: str) -> str:
    """A line of a plain scalar without the comment behind it."""
    at = text.find(" #")
    return text if at < 0 else text[:at].rstrip()


def _folded_block(lines: list[str]) -> str:
    """The lines of a block that begins with `>`: those that stand further in keep their line breaks."""
    out: list[str] = []
    blank, began, deep = 0, False, False
    for line in lines:
        if not line:
            blank += 1
            continue
        deeper = line[0] in " \t"
        stays = began and (deep or deeper)
        out.append("\n" * (blank + stays) if blank or stays or not began else " ")
        out.append(line)
        blank, began, deep = 0, True, deeper
    return "".join(out) + "\n" * blank
