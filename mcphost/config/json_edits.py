"""Edits of JSON with comments: set, replace or remove one member without changing the rest of the text."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

from mcphost.config.json_files import DuplicateKeyDict, parse_json, strip_comments
from mcphost.errors import ConfigError
from mcphost.serialization import find_member

_WHITESPACE = re.compile(r"\s*")
_DEFAULT_INDENT = "  "
_DECODER = json.JSONDecoder()
_BYTE_ORDER_MARK = "\ufeff"


class _Member(NamedTuple):
    """A member of an object in JSON text: its key, its start, and the start and end of its value."""

    key: str
    start: int
    value_start: int
    value_end: int


class _Object(NamedTuple):
    """An object or list in JSON text: the positions of its opening and closing brackets, and its members."""

    start: int
    end: int
    members: tuple[_Member, ...]

    def find(self, key: str) -> _Member | None:
        """Return the first member with this key, or None."""
        return next((member for member in self.members if member.key == key), None)


def set_member(text: str, file: str, path: Sequence[str], value: Any) -> str:
    """Return *text* with the member at *path* set to *value*; missing parent objects are added.

    *path* consists of keys. For an item of a list, which must exist, the key is its index as text, such as "0".

    A new member is added at the end of the object and indented like the other members. Empty text counts as an
    empty object. Error messages name *file*. Raises ConfigError if the text is not valid JSON, if a parent is not
    an object, or if a key of *path* occurs twice.
    """
    if not text.strip(_BYTE_ORDER_MARK + " \t\r\n"):
        text = "{}\n"
    document = _parse(text, file)
    _check_path(document, file, path)
    plain = _blank(text)
    at, depth = _skip_whitespace(plain, 0), 0
    while True:
        span = _scan(plain, at)
        member = span.find(path[depth])
        if member is None:
            edited = _insert(text, plain, span, path[depth], _nest(path[depth + 1 :], value))
            break
        if depth == len(path) - 1:
            new = _render(value, text, _indent_at(text, member.start), _indent_unit(text, plain))
            edited = text[: member.value_start] + new + text[member.value_end :]
            break
        at, depth = member.value_start, depth + 1
    expected = json.loads(json.dumps(document))
    parent: Any = expected
    for key in path[:-1]:
        parent = _get_or_add(parent, key)
    parent[int(path[-1]) if isinstance(parent, list) else path[-1]] = value
    return _checked(edited, file, expected)


def replace_value(text: str, file: str, path: Sequence[str], before: str, value: str) -> str:
    """Return *text* with the value at *path* replaced by *value*.

    The current value must be the string *before*, or a number whose text is *before*. If a key is repeated in
    an object, the first member is used, as when a configuration is read. Raises ConfigError if the member is
    missing or has another value. Error messages name *file*.
    """
    document = _parse(text, file)
    plain = _blank(text)
    at, end = _skip_whitespace(plain, 0), len(plain)
    for key in path:
        member = _scan_object(plain, at).find(key) if plain[at] == "{" else None
        if member is None:
            raise ConfigError(f"The key {key!r} is no longer in the file; nothing was written.", "Try again.")
        at, end = member.value_start, member.value_end
    if str(json.loads(plain[at:end])) != before:
        raise ConfigError(f"{file} was changed by another program; nothing was written.", "Try again.")
    expected = json.loads(json.dumps(document))
    parent = expected
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return _checked(f"{text[:at]}{json.dumps(value, ensure_ascii=False)}{text[end:]}", file, expected)


def update_member(text: str, file: str, path: Sequence[str], value: Any) -> str:
    """Return *text* with the member at *path* set to *value*; only the parts that differ are rewritten.

    All other text is preserved, including comments and layout inside the member. Raises ConfigError like
    `set_member`.
    """
    current: Any = _parse(text, file) if text.strip(_BYTE_ORDER_MARK + " \t\r\n") else {}
    current = find_member(current, path)
    try:
        edited = text
        for is_set, keys, new in _list_differences(tuple(path), current, value):
            edited = set_member(edited, file, keys, new) if is_set else remove_member(edited, file, keys)
    except ConfigError:  # such as a key that occurs twice in the member
        return set_member(text, file, path, value)
    return edited


def _list_differences(path: tuple[str, ...], old: Any, new: Any) -> Iterator[tuple[bool, tuple[str, ...], Any]]:
    """Yield the edits that turn the value *old* at *path* into *new*.

    Each edit is a tuple of a flag (True to set the member, False to remove it), the member's path, and its new
    value (None if it is removed).
    """
    if isinstance(old, dict) and isinstance(new, dict) and old:
        before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for key in before:
            if key not in after:
                yield False, (*path, key), None
        for key, member in after.items():
            if key in before:
                yield from _list_differences((*path, key), before[key], member)
            else:
                yield True, (*path, key), member
    elif isinstance(old, list) and isinstance(new, list) and len(cast("list[Any]", old)) == len(cast("list[Any]", new)):
        for number, (one, other) in enumerate(zip(cast("list[Any]", old), cast("list[Any]", new), strict=True)):
            yield from _list_differences((*path, str(number)), one, other)
    elif json.dumps(old) != json.dumps(new) or old is None:
        yield True, path, new


def remove_member(text: str, file: str, path: Sequence[str]) -> str:
    """Return *text* without the member at *path*; comments are preserved.

    Raises ConfigError if there is no such member, if the text is not valid JSON, or if a key in *path* occurs twice.
    """
    document = _parse(text, file)
    _check_path(document, file, path)
    plain = _blank(text)
    at = _skip_whitespace(plain, 0)
    for key in path[:-1]:
        parent = _scan(plain, at).find(key)
        if parent is None:
            raise _missing_member(path, file)
        at = parent.value_start
    span = _scan_object(plain, at)
    member = span.find(path[-1])
    if member is None:
        raise _missing_member(path, file)
    position = span.members.index(member)
    comma = _find_comma(text, member.value_end, _member_limit(span, position))
    start, end = member.start, member.value_end if comma < 0 else comma + 1
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip():
        start = max(0, line_start - 1 - (text[line_start - 2 : line_start - 1] == "\r"))
    edited = text[:start] + text[end:]
    if comma < 0 and position > 0:
        before = span.members[position - 1].value_end
        previous_comma = _find_comma(text, before, member.start)
        edited = edited[:previous_comma] + edited[previous_comma + 1 :]
    expected = json.loads(json.dumps(document))
    parent_object: Any = expected
    for key in path[:-1]:
        parent_object = _get_or_add(parent_object, key)
    del parent_object[path[-1]]
    return _checked(edited, file, expected)


def _get_or_add(parent: Any, key: str) -> Any:
    """Return the item of a list at the index *key*, or the member *key* of an object, which is added if missing."""
    if isinstance(parent, list):
        return cast("list[Any]", parent)[int(key)]
    return cast("dict[str, Any]", parent).setdefault(key, {})


def _parse(text: str, file: str) -> dict[str, Any]:
    document = parse_json(text.removeprefix(_BYTE_ORDER_MARK), file)
    if not isinstance(document, dict):
        raise ConfigError(f"{file} is not a JSON object.", "Is it the right file?")
    return cast("dict[str, Any]", document)


def _check_path(document: dict[str, Any], file: str, path: Sequence[str]) -> None:
    """Raise ConfigError if *path* cannot be edited safely.

    A path is not safe to edit if a parent on it is not an object, or if one of its keys occurs twice in an object.
    """
    value: Any = document
    for depth, key in enumerate(path):
        if isinstance(value, list):
            items = cast("list[Any]", value)
            if key.isascii() and key.isdecimal() and len(key) < 10 and int(key) < len(items):
                value = items[int(key)]
                continue
        if not isinstance(value, dict):
            raise ConfigError(f'{file}: "{".".join(path[:depth])}" is not an object.', "Correct the file there.")
        if isinstance(value, DuplicateKeyDict) and key in value.duplicate_keys:
            raise ConfigError(f'{file}: it has the key "{key}" twice.', "Remove one of them, then try again.")
        members = cast("dict[str, Any]", value)
        if key not in members:
            return
        value = members[key]


def _missing_member(path: Sequence[str], file: str) -> ConfigError:
    return ConfigError(f'{file}: there is no "{".".join(path)}".', "Was the file changed?")


def _checked(edited: str, file: str, expected: Any) -> str:
    """Return the *edited* text if it parses to *expected*; otherwise, raise ConfigError."""
    try:
        is_right = _parse(edited, file) == expected
    except ConfigError:
        is_right = False
    if not is_right:
        raise ConfigError(f"{file} cannot be changed at this place alone.", "Change it with an editor.")
    return edited


def _blank(text: str) -> str:
    """Replace comments, trailing commas and the byte order mark with spaces, so that all positions stay the same."""
    plain = strip_comments(text)
    return f" {plain[1:]}" if plain.startswith(_BYTE_ORDER_MARK) else plain


def _scan(plain: str, start: int) -> _Object:
    """Return the positions of the object or list at *start*, and of its members.

    *plain* must be valid JSON without comments. The items of a list have their indices as keys.
    """
    if plain[start] != "[":
        return _scan_object(plain, start)
    items: list[_Member] = []
    at = _skip_whitespace(plain, start + 1)
    while plain[at] != "]":
        end = _DECODER.raw_decode(plain, at)[1]
        items.append(_Member(str(len(items)), at, at, end))
        at = _skip_whitespace(plain, end)
        if plain[at] == ",":
            at = _skip_whitespace(plain, at + 1)
    return _Object(start, at, tuple(items))


def _scan_object(plain: str, start: int) -> _Object:
    """Return the positions of the object at *start* and of its members; *plain* must be valid JSON without comments."""
    members: list[_Member] = []
    at = _skip_whitespace(plain, start + 1)
    while plain[at] == '"':
        key_start = at
        key, at = _DECODER.raw_decode(plain, at)
        value_start = _skip_whitespace(plain, _skip_whitespace(plain, at) + 1)
        value_end = _DECODER.raw_decode(plain, value_start)[1]
        members.append(_Member(key, key_start, value_start, value_end))
        at = _skip_whitespace(plain, value_end)
        if plain[at] == ",":
            at = _skip_whitespace(plain, at + 1)
    return _Object(start, at, tuple(members))


def _member_limit(span: _Object, position: int) -> int:
    """Return the start of the member after the member with index *position* in *span*.

    For the last member, return the position of the closing brace.
    """
    return span.members[position + 1].start if position + 1 < len(span.members) else span.end


def _find_comma(text: str, start: int, end: int) -> int:
    """Return the position of the first comma between *start* and *end* that is not in a comment, or -1."""
    at = _hide_comments(text[start:end]).find(",")
    return at if at < 0 else at + start


def _hide_comments(part: str) -> str:
    """Replace comments in the text between two members with spaces; the comma between the members is preserved."""
    # strip_comments would remove a trailing comma; the string after it prevents that.
    return strip_comments(f'{part}\n"')[: len(part)]


def _insert(text: str, plain: str, span: _Object, key: str, value: Any) -> str:
    """Return *text* with a new member added at the end of the object that *span* describes.

    *plain* is *text* without comments and trailing commas, as returned by `_blank`.
    """
    unit, newline = _indent_unit(text, plain), _newline(text)
    inner = f"{json.dumps(key, ensure_ascii=False)}: "
    if not span.members:
        outer = _indent_at(text, span.start)
        body = inner + _render(value, text, outer + unit, unit)
        kept = text[span.start + 1 : span.end].rstrip()
        return f"{text[: span.start + 1]}{kept}{newline}{outer}{unit}{body}{newline}{outer}{text[span.end :]}"
    last = span.members[-1]
    comma = _find_comma(text, last.value_end, span.end)
    if "\n" not in text[span.start : span.end]:
        body = inner + json.dumps(value, ensure_ascii=False)
        cut = last.value_end if comma < 0 else comma
        return f"{text[:cut]}, {body}{text[cut:]}"
    indent = _indent_at(text, last.start)
    body = inner + _render(value, text, indent, unit)
    tail_start = len(text[: span.end].rstrip())
    head = text[: last.value_end] + ("," if comma < 0 else "") + text[last.value_end : tail_start]
    return f"{head}{newline}{indent}{body}{',' if comma >= 0 else ''}{text[tail_start:]}"


def _nest(keys: Sequence[str], value: Any) -> Any:
    for key in reversed(keys):
        value = {key: value}
    return value


def _render(value: Any, text: str, indent: str, unit: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (_newline(text) + indent).join(lines)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, position: int) -> str:
    """Return the indentation of the line that contains *position*."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip())].removeprefix(_BYTE_ORDER_MARK)


def _indent_unit(text: str, plain: str) -> str:
    """Return the white space of one indentation level, taken from the first indented line.

    *plain* is *text* without comments.
    """
    for line, blanked in zip(text.split("\n"), plain.split("\n"), strict=False):
        if blanked.strip() and (indent := line[: len(line) - len(line.lstrip(" \t"))]):
            return indent
    return _DEFAULT_INDENT


def _skip_whitespace(plain: str, at: int) -> int:
    match = _WHITESPACE.match(plain, at)
    return match.end() if match else at
