"""TOML files: parsing within limits, validation of tables against structs, and line numbers of entries."""

import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NoReturn, TypeVar, cast

from mcphost.config.json_files import describe_type
from mcphost.config.schema import ConfigWarning, ProblemCallback, SettingWarning
from mcphost.config.value_conversion import InvalidValue, convert_value, settable_fields
from mcphost.errors import ConfigError
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Struct

_COUNTED_CHARACTERS = "=[{,.\n\\"
_MAX_COUNTED_CHARACTERS = 12_000
_MAX_KEY_PARTS = 50

# Possessive, and without a required closing quote, so that the pattern takes linear time.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:[^"\\]|\\.|""?(?!"))*+(?:"{3,5})?'
    r"|'''(?:[^']|''?(?!'))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
_KEY_BOUNDARY = re.compile(r"[=\[\]{},]")


def parse_toml(text: str, file: str) -> dict[str, Any]:
    """Parse TOML in time proportional to its length.

    Raises ConfigError with the reason if the text is invalid; *file* is the name of the file in the message.
    """
    _check_limits(text, file)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        reason = str(error)[:300] or type(error).__name__
        reason = reason.replace("(at end of document)", f"(at the end, line {text.rstrip().count(chr(10)) + 1})")
        raise ConfigError(f"{file}: not valid TOML: {reason}.", "Correct the file there.") from error


def _check_limits(text: str, file: str) -> None:
    """Raise ConfigError if *text* would take too long to parse."""
    if sum(map(text.count, _COUNTED_CHARACTERS)) > _MAX_COUNTED_CHARACTERS:
        raise ConfigError(
            f"{file}: more than {_MAX_COUNTED_CHARACTERS:,} keys, values, lines and escapes.", "Is it the right file?"
        )
    if text.count(".") <= _MAX_KEY_PARTS:
        return
    # The parser takes quadratic time in the number of parts of a key, even if no value follows the key.
    for line in _STRING_OR_COMMENT.sub("", text).split("\n"):
        if line.count(".") > _MAX_KEY_PARTS and any(
            part.count(".") > _MAX_KEY_PARTS for part in _KEY_BOUNDARY.split(line)
        ):
            raise ConfigError(f"{file}: a key of more than {_MAX_KEY_PARTS} parts.", "Correct the file there.")


S = TypeVar("S", bound=Struct)

_SIMILAR = 0.7
"""Similarity of two keys, from 0 to 1, from which one may be a typo of the other."""
_MAX_UNKNOWN_KEYS_SHOWN = 20
"""Maximum number of unknown keys of a table to report by name; the others are only counted."""


class TomlTable:
    """A table of config.toml, validated against a struct; in messages, keys are preceded by `prefix`.

    The prefix is the name of the table followed by a dot, or "" for the top level of the document. *text* is the
    content of the file, in which the lines of invalid entries are looked up.
    """

    def __init__(
        self, values: Mapping[str, Any], file: str, prefix: str, on_problem: ProblemCallback, text: str = ""
    ) -> None:
        self.values, self.file, self.prefix, self.on_problem = values, file, prefix, on_problem
        self.text = text

    def locate(self, key: str) -> str:
        """Return the name of the file and, if it is found, the line of *key*: "FILE, line N"."""
        if self.prefix:
            line = find_entry_line(self.text, self.prefix.removesuffix("."), key)
        else:
            line = find_table_line(self.text, key)
        return f"{self.file}, line {line}" if line else self.file

    def get_table(self, key: str) -> "TomlTable":
        """Return the subtable *key*, or an empty table if it is missing or not a table."""
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            if not (key == "model" and isinstance(value, str)):
                self._warn(key, f"is {describe_type(value)}, not a table; write [{key}]; the default is used.")
            value = {}
        return TomlTable(cast("dict[str, Any]", value), self.file, f"{self.prefix}{key}.", self.on_problem, self.text)

    def read(self, kind: type[S]) -> S:
        """Return the table converted to *kind*, with invalid values replaced by defaults.

        Unknown keys and invalid values are reported.
        """
        keys = tuple(settable_fields(kind))
        self.report_unknown(keys)
        return kind(**self.read_values(kind, keys))

    def read_values(self, kind: type[Struct], keys: Iterable[str]) -> dict[str, Any]:
        """Return the valid values for *keys*, which are fields of *kind*; invalid values are reported and omitted."""
        fields = settable_fields(kind)
        values: dict[str, Any] = {}
        for key in keys:
            if key not in self.values:
                continue
            try:
                values[key] = convert_value(self.values[key], fields[key].type)
            except InvalidValue as error:
                default = fields[key].default
                self._warn(key, f"{error}; the default{f' ({default})' if default else ''} is used.")
        return values

    def _warn(self, key: str, what: str, setting: str | None = None) -> None:
        """Report a problem with *key*; *what* is the end of the message, for example "is unknown".

        *setting* is the key whose value the problem affects (see `SettingProblem`): None stands for *key*, and ""
        means that no value is affected.
        """
        shown = sanitize_line(key, 60)
        text, setting = f'{self.locate(key)}: "{self.prefix}{shown}" {what}', key if setting is None else setting
        self.on_problem(SettingWarning(text, f"{self.prefix}{setting}") if setting else ConfigWarning(text))

    def report_unknown(self, known: Collection[str]) -> None:
        """Report each key that is not in *known*, along with the most similar known key, if any.

        If the similar key is missing in the table, the user probably meant to set this key. The problem is then
        reported as one that affects the value of the similar key.
        """
        unknown = [key for key in self.values if key not in known]
        for key in unknown[:_MAX_UNKNOWN_KEYS_SHOWN]:
            near = find_similar(key, known)
            hint = f'did you mean "{self.prefix}{near}"?' if near else "it does nothing."
            meant = "" if near in self.values else near
            self._warn(key, f"is unknown: {hint}", meant)
        if len(unknown) > _MAX_UNKNOWN_KEYS_SHOWN:
            more = len(unknown) - _MAX_UNKNOWN_KEYS_SHOWN
            self.on_problem(ConfigWarning(f"{self.file}: {more:,} more keys are unknown."))

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise ConfigError for the first key that is not in *known*.

        Use this for tables that set limits or forbid calls. If a misspelt key in such a table were ignored, the limit
        or prohibition would have no effect.
        """
        for key in self.values:
            if key not in known:
                self._refuse(key, find_similar(key, known), f"Known keys: {', '.join(known)}.")

    def refuse_similar(self, tables: Collection[str], known: Collection[str]) -> None:
        """Raise ConfigError for an unknown key that is probably a misspelt name of one of the *tables*.

        A key is probably misspelt if the key in *known* that is most similar to it is one of the *tables*. Pass the
        tables that set limits or forbid calls: under a misspelt name, such a table would have no effect.
        """
        for key in self.values:
            near = "" if key in known else find_similar(key, known)
            if near in tables:
                self._refuse(key, near, "Correct the name, because limits or rules in it would not apply.")

    def _refuse(self, key: str, near: str, hint: str) -> NoReturn:
        name = f"{self.prefix}{sanitize_line(key, 60)}"
        if near:
            raise ConfigError(f'{self.locate(key)}: "{name}" is unknown: did you mean "{self.prefix}{near}"?', hint)
        raise ConfigError(f'{self.locate(key)}: "{name}" is unknown.', hint)


def find_similar(key: str, known: Collection[str]) -> str:
    """Return the key in *known* that is most similar to *key*, or "" if there is no close match."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(key[:60], known, 1, _SIMILAR)), "")


def find_entry_line(text: str, table: str, key: str) -> int:
    """Return the line number (1-based) of *key* in the top-level table *table*, or 0 if it is not found.

    A line inside a multi-line string can be mistaken for the entry, so the number must be used only in messages.
    """
    current = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("["):
            current = _unquote(line.partition("#")[0].strip().removeprefix("[").removesuffix("]"))
            continue
        name, equals, _ = line.partition("=")
        if equals and current == table and _unquote(name) == key:
            return number
        if equals and not current:
            first, dot, rest = name.partition(".")
            if _unquote(first) == table and (not dot or _unquote(rest) == key):
                return number
    return 0


def find_table_line(text: str, name: str, number: int = 1) -> int:
    """Return the line number (1-based) of the top-level entry *name*, or 0 if it is not found.

    The entry is a key, or the header of a table. If several tables have this header, as with `[[hooks]]`, *number*
    selects one of them, counted from 1. Use the line number only in messages: a line inside a multi-line string can
    be mistaken for the entry.
    """
    is_top = True
    for at, line in enumerate(text.split("\n"), 1):
        is_header = line.lstrip().startswith("[")
        is_top = is_top and not is_header
        if is_header:
            found = line.partition("#")[0].strip().strip("[]")
        elif is_top and "=" in line:
            found = line.partition("=")[0].partition(".")[0]
        else:
            continue
        if _unquote(found) == name:
            number -= 1
            if number == 0:
                return at
    return 0


def _unquote(name: str) -> str:
    name = name.strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name
