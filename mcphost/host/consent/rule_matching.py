"""Matching of rules against tool calls: "yes", "no", or "unsure" if servers may interpret the call differently.

An allow-rule applies only on "yes", so that it never covers more than it states; a never-rule applies on "yes" and
"unsure".
"""

import math
import os
import re
from pathlib import Path
from typing import Any, Literal, cast

import anyio
import anyio.to_thread

from mcphost.config.rule_syntax import parse_path
from mcphost.config.rules import FILES, OTHER_SERVERS, Condition, Rule, Value
from mcphost.host.argument_origins import NO_ORIGINS, ArgumentOrigins
from mcphost.host.consent.schema_defaults import find_defaults
from mcphost.host.consent.similar_arguments import NameComparison, UnclearNameError, may_equal, normalize_name
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.sanitize import sanitize
from mcphost.serialization import Raw, Struct, encode
from mcphost.unicode_forms import normalize

Containment = Literal["inside", "outside", "unsure"]
PATH_LIMIT = 4096
_MAX_LINKS = 40
_MAX_NAMES = 500
_AMBIGUOUS = re.compile(r"[\x00-\x1f\x7f\\$`*?\[\]{}%]|^\s|\s$|^[A-Za-z][A-Za-z0-9+.-]*:|(?:^|/)\.{3,}(?:/|$)")
"""Text that servers read differently: Windows separators, variables, globs, percent codes, addresses such as file:///x;
surrounding white space, which some strip; names of three or more dots, which careless cleanup turns into `..`."""
_JOINED = re.compile(r"""[:;,|&<>"'=^#!]|^[-@+]|^//|\s(?=[-@+/~.])|[(“‘„‚«](?=[-@+/~]|\.{1,2}/)""")
"""Text that may be several paths, an option, or a reference to a file: `/a:/b`, `x (/a)`, `-o`, `@file`."""
_SEPARATORS = re.compile(r"""[:;,|&<>"'=^#!@+\s]+""")
_BRACKETS = re.compile(r"""[()“”‘’„‚«»:;,|&<>"'=^#!@+\s]+""")
"""Separators and the quotes and brackets that may be around a path, but are also common in names, as in `x (1)`."""
_MAX_PARTS = 50
_PER_PROCESS = ("/proc", "/dev")
"""Folders whose content depends on the process: /proc/self/cwd of mcphost is not that of the server."""


class _AmbiguousPath(Exception):
    """Raised for a path that servers may resolve differently."""


def check_containment(value: str, folder: str, working_directory: str) -> Containment:
    """Return whether the path *value*, relative to *working_directory*, is *folder* or inside it.

    The result is "inside", "outside" or "unsure". Programs may resolve a path differently: some take `link/../x` as a
    path next to the link, others as a path next to the link's target. The result is therefore "unsure" if `..` leads to
    different results before and after symbolic links are followed. If a path does not exist, its existing parents are
    used. Reads the file system, so it may block; never raises.
    """
    if not value or len(value) > PATH_LIMIT:
        return "unsure"
    normalized = normalize("NFKC", value)
    if _is_ambiguous(value, normalized):
        return "unsure"
    try:
        top = _resolve(_expand_home(folder), "/")
        inside = _all_or_any_inside(_interpretations(value, working_directory), top, working_directory)
        if not (_JOINED.search(value) or _JOINED.search(normalized)):
            words = _find_paths_in_words(value, working_directory)
            if words and _all_or_any_inside(words, top, working_directory) != (inside[0], inside[0]):
                return "unsure"
            return "inside" if inside[0] else "unsure" if inside[1] else "outside"
        # A never-rule also applies to "unsure"; an allow-rule requires that only one interpretation is possible.
        parts = [
            text
            for part in {*_split_paths(value), *_split_paths(normalized)}
            for text in _interpretations(part, working_directory)
        ]
        return "unsure" if inside[1] or _all_or_any_inside(parts, top, working_directory)[1] else "outside"
    except (_AmbiguousPath, OSError, ValueError, RuntimeError):
        return "unsure"


def _all_or_any_inside(texts: list[str], top: str, working_directory: str) -> tuple[bool, bool]:
    inside = [_is_within(path, top) for path in {_resolve(text, working_directory) for text in texts}]
    return all(inside), any(inside)


def _is_ambiguous(value: str, normalized: str) -> bool:
    """Return whether servers may interpret the path *value* differently; *normalized* is its NFKC form."""
    return (
        bool(_AMBIGUOUS.search(value) or _AMBIGUOUS.search(normalized))
        or sanitize(value, keep_newlines=False) != value
        or any(value.count(char) != normalized.count(char) for char in "./~")
    )


def _split_paths(text: str) -> list[str]:
    """Split *text* into the paths it may contain; `-I/etc`, for example, also yields `/etc`.

    Raises _AmbiguousPath if there are more than 50 parts.
    """
    splits = [[part for part in pattern.split(text) if part] for pattern in (_SEPARATORS, _BRACKETS)]
    if max(map(len, splits)) > _MAX_PARTS:
        raise _AmbiguousPath
    parts = dict.fromkeys((*splits[0], *splits[1]))
    return [*parts, *(part[part.index("/") :] for part in parts if "/" in part)]


def _find_paths_in_words(value: str, working_directory: str) -> list[str]:
    """Return the paths that a server would read if it split *value* at white space, as a shell does.

    A word is included only if it exists as a path or contains `..`, because file names with spaces are common. In `x
    link`, for example, the word `link` may be a symbolic link; in `x/y a/../../z`, the second word alone leads to a
    higher folder than the whole text. Raises _AmbiguousPath if there are more than 50 words.
    """
    first, *others = value.split()
    if len(others) >= _MAX_PARTS:
        raise _AmbiguousPath
    if not others:
        return []
    # The folder of the first word is also that of the whole path.
    existing = [(first, first), *((word, word.partition("/")[0]) for word in others)]
    return [
        text
        for word, needed in existing
        if ".." in word.split("/") or _exists_somewhere(needed, working_directory)
        for text in _interpretations(word, working_directory)
    ]


def _exists_somewhere(path: str, working_directory: str) -> bool:
    return any(
        os.path.lexists(os.path.join(working_directory, text)) for text in _interpretations(path, working_directory)
    )


def _interpretations(value: str, working_directory: str) -> list[str]:
    """Return the paths that servers may understand *value* to mean.

    The result contains *value* unchanged and, if *value* begins with `~`, with the home folder filled in. For each of
    these paths, the result also contains the absolute path with `..` removed; relative paths are relative to
    *working_directory*.
    """
    texts = [value]
    if value.startswith("~"):
        # Most programs keep the "~"; some expand it to the home folder.
        texts.append(_expand_home(value))
    return [*texts, *(os.path.normpath(os.path.join(working_directory, text)) for text in texts)]


def _expand_home(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _resolve(path: str, working_directory: str) -> str:
    """Return the absolute path with symbolic links and `..` resolved.

    A relative path is relative to *working_directory*. Raises _AmbiguousPath or OSError.
    """
    pending = [name for name in reversed(os.path.join(working_directory, path).split("/")) if name not in ("", ".")]
    current, links = "/", 0
    while pending:
        if len(pending) > _MAX_NAMES:
            raise _AmbiguousPath
        name = pending.pop()
        if name == "..":
            current = os.path.dirname(current)
            continue
        candidate = os.path.join(current, name)
        if candidate in _PER_PROCESS:
            raise _AmbiguousPath
        try:
            target = os.readlink(candidate)
        except OSError:
            # Not a link, missing, or not accessible; if not accessible, the server may find something else.
            if os.path.lexists(candidate) or _is_searchable(current):
                current = candidate
                continue
            raise
        links += 1
        if links > _MAX_LINKS:
            raise _AmbiguousPath
        current = "/" if target.startswith("/") else current
        pending.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return current


def _is_searchable(folder: str) -> bool:
    """Return whether mcphost has the permission to look up names in a folder; True if the folder does not exist."""
    return not os.path.isdir(folder) or os.access(folder, os.X_OK)


def _is_within(path: str, top: str) -> bool:
    if path == top or path.startswith(top.rstrip("/") + "/"):
        return True
    # The same folder may have another name, through a mount or on a case-insensitive file system.
    try:
        wanted = os.stat(top)
    except OSError:
        return False
    while True:
        try:
            if os.path.samestat(os.stat(path), wanted):
                return True
        except OSError:
            pass
        if path == "/":
            return False
        path = os.path.dirname(path)


RuleMatch = Literal["yes", "no", "unsure"]
PATH_SECONDS = 1.0
"""Seconds to wait for the file system; an unreachable network folder could take minutes."""
TEXT_LIMIT = 64 * 1024
_MAX_DEPTH = 20
"""Maximum depth at which objects are searched for similar names; deeper objects make the match "unsure"."""
_PROTOTYPES = ("__proto__", "constructor")


class RuleInput(Struct, frozen=True, kw_only=True):
    """The tool call that a rule is matched against.

    `folder` is the working directory of a local server, None for a remote one. `definition` is the tool's definition as
    JSON, which provides default values for omitted arguments; b"" if it is unknown.
    """

    server: str
    tool: str
    arguments: dict[str, Any]
    account: str = ""
    folder: str | None = None
    origins: ArgumentOrigins = NO_ORIGINS
    definition: Raw = Raw(b"")


class RuleMatcher:
    """Matcher that checks whether a rule covers a tool call.

    Regular expressions run in the schema validator's child process, which is killed if they take too long.
    """

    def __init__(self, validator: SchemaValidator, settings: RuntimeSettings | None = None) -> None:
        """Create a matcher that runs regular expressions in *validator*.

        With `[consent] origins = "ask"` in *settings*, a call whose arguments contain text from another server is
        allowed only by a rule that names that server.
        """
        self._validator = validator
        self._settings = settings

    @property
    def asks_about_origins(self) -> bool:
        """Whether a call with text from another server is allowed only by a rule that names this server."""
        return self._settings is not None and self._settings.consent.origins == "ask"

    async def allows(self, rule: Rule, call: RuleInput) -> bool:
        """Return whether an allow-rule certainly covers the call, including the origins of its arguments."""
        return self.allows_origins(call.origins, rule) and await self.match(rule, call) == "yes"

    def allows_origins(self, origins: ArgumentOrigins, rule: Rule | None = None) -> bool:
        """Return whether a call may run without asking the user, considering only the origins of its arguments.

        *rule* is the rule that covers the call, None for none. If origins matter (see `asks_about_origins`), the rule
        must name each server from which the arguments were copied.
        """
        if not (self.asks_about_origins or origins.must_be_named):
            return True
        conditions = rule.conditions if rule is not None else ()
        named = {value for condition in conditions if condition.operator == "from" for value in condition.values}
        return OTHER_SERVERS in named or (origins.servers | origins.unchecked) <= named

    async def match(self, rule: Rule, call: RuleInput) -> RuleMatch:
        """Return whether the rule covers the call, ignoring the rule's scope and expiry.

        Never raises an error. Safe to cancel.
        """
        if not rule.covers(call.server, call.tool) or rule.account not in (None, call.account):
            return "no"
        answer: RuleMatch = "yes"
        for condition in rule.conditions:
            if condition.operator == "only":
                result = "yes" if _has_only(call.arguments, _named_paths(rule)) else "no"
            else:
                result = await self._match_condition(condition, call)
            if result == "no":
                return "no"
            answer = "unsure" if result == "unsure" else answer
        return answer

    async def _match_condition(self, condition: Condition, call: RuleInput) -> RuleMatch:
        if condition.operator in ("from", "never-from"):
            return _match_origins(condition, call.origins)
        is_present, value, is_ambiguous = _find_argument(call.arguments, condition.argument)
        if is_ambiguous:
            # A server that reads "Path" as "path" may act on either.
            return "unsure"
        if is_present:
            return await self._match_value(condition, value, call.folder)
        # The server may use the default value that its schema declares; null is as good as no value.
        defaults = find_defaults(call.definition, call.arguments, condition.argument)
        if defaults is None:
            return "unsure"
        for default in defaults:
            if await self._match_value(condition, default, call.folder) != "no":
                return "unsure"
        return "no"

    async def _match_value(self, condition: Condition, value: Any, folder: str | None) -> RuleMatch:
        match condition.operator:
            case "under":
                return await _match_folder(value, condition.values[0], folder)
            case "re":
                return await self._match_pattern(value, condition.values[0])
            case _:
                return _compare(condition, value)

    async def _match_pattern(self, value: Any, pattern: Value) -> RuleMatch:
        if not isinstance(value, str) or len(value) > TEXT_LIMIT or sanitize(value, keep_newlines=False) != value:
            # A dot does not match a line break, but `[^;]` does; users may expect neither.
            return "unsure"
        # The pattern must also be valid alone: inside the anchoring group, `a)|(b` would become two patterns.
        schema = {"type": "string", "allOf": [{"pattern": pattern}, {"pattern": f"^(?:{pattern})$"}]}
        verdict = await self._validator.validate(encode(schema), value)
        return {"fits": "yes", "invalid": "no"}.get(verdict.outcome, "unsure")  # pyright: ignore[reportReturnType]


def _named_paths(rule: Rule) -> set[tuple[str, ...]]:
    """Return the paths of the arguments that a rule with an "only" condition allows.

    They are the paths listed in the "only" condition and the paths that the rule's other conditions test.
    """
    paths = {condition.argument for condition in rule.conditions if condition.argument}
    only = [value for condition in rule.conditions if condition.operator == "only" for value in condition.values]
    return paths | {parse_path(str(value)) for value in only}


def _has_only(members: dict[str, Any], allowed: set[tuple[str, ...]], path: tuple[str, ...] = ()) -> bool:
    """Return whether an object contains only allowed arguments, including in objects nested in it.

    *members* are the members of the object, and *path* is the object's path in the arguments of the call. *allowed*
    contains the paths of the allowed arguments.
    """
    for name, value in members.items():
        inner = (*path, name)
        if inner in allowed:
            continue
        leads_on = isinstance(value, dict) and any(one[: len(inner)] == inner for one in allowed)
        if not (leads_on and _has_only(cast("dict[str, Any]", value), allowed, inner)):
            return False
    return True


def _match_origins(condition: Condition, origins: ArgumentOrigins) -> RuleMatch:
    """Return "yes" if the arguments contain text from one of the servers named in *condition*, else "no".

    For the operator "never-from", "yes" and "no" are swapped. The result is "unsure" if not all text from these servers
    could be compared with the arguments, or if one of these servers may be the origin under another name.
    """
    named = {str(value) for value in condition.values}
    is_any = OTHER_SERVERS in named
    is_from = condition.operator == "from"
    if (is_any and origins.found) or named & origins.servers:
        return "yes" if is_from else "no"
    if origins.unchecked and (is_any or OTHER_SERVERS in origins.unchecked or named & origins.unchecked):
        return "unsure"
    if named & origins.aliases or (OTHER_SERVERS in origins.aliases and named - {FILES}):
        return "unsure"
    return "no" if is_from else "yes"


def _find_argument(arguments: dict[str, Any], path: tuple[str, ...]) -> tuple[bool, Any, bool]:
    """Look up the argument at *path* in nested objects.

    Return a tuple: whether the argument is present, its value, and whether a server may read the value of another
    argument instead.
    """
    try:
        if _has_similar_name(arguments, path, "".join(map(normalize_name, path)), NameComparison()):
            return False, None, True
    except UnclearNameError:
        return False, None, True
    value: Any = arguments
    for name in path:
        if not isinstance(value, dict):
            # Some servers parse JSON in a string, or use the first item of a list.
            return False, None, True
        members = cast("dict[str, Any]", value)
        if name not in members:
            return False, None, False
        value = members[name]
    return True, value, False


def _has_similar_name(
    members: dict[str, Any], path: tuple[str, ...], wanted: str, names: NameComparison, depth: int = 0
) -> bool:
    """Return whether a server may mistake another member for the argument at *path*.

    This is possible in three cases:

    - A member has a similar name, such as `Path`, `path[]`, or `path` with an invisible character.
    - The same path is divided differently, such as `options.depth` as a single name, or one name as nested objects.
    - A member has a name such as `__proto__`, from which JavaScript objects inherit members.

    *path* is the path within *members*, and *wanted* is the part of the normalized path that is still to be found in
    *members*. Raises UnclearNameError if the names are too long to be compared.
    """
    if depth > _MAX_DEPTH:
        return True
    similar_lengths = {len(wanted), *(len(normalize_name(name)) for name in path[:1])}
    for name, member in members.items():
        is_expected = bool(path) and name == path[0]
        if not is_expected and name in _PROTOTYPES:
            return True
        length = names.count_spelled(name, wanted)
        if length is None:
            continue
        if not is_expected and length in similar_lengths:
            return True
        step = path[1:] if is_expected else ()
        if isinstance(member, dict) and (step or not is_expected):
            inner = cast("dict[str, Any]", member)
            if _has_similar_name(inner, step, wanted[length:], names, depth + 1):
                return True
    return False


def _value_kind(value: Any) -> str:
    match value:
        case bool():
            return "truth"
        case int():
            return "number"
        case float():
            return "number" if math.isfinite(value) else ""
        case str():
            return "text"
        case _:
            return ""


def _compare(condition: Condition, value: Any) -> RuleMatch:
    """Return whether the value meets the condition; numbers are compared with numbers, and text with text.

    Other combinations are "unsure", because the server may convert the value.
    """
    kind = _value_kind(value)
    kinds = {_value_kind(expected) for expected in condition.values}
    if not kind:
        return "unsure"
    if condition.operator in ("is", "in"):
        if any(_value_kind(expected) == kind and expected == value for expected in condition.values):
            return "yes"
        return "unsure" if kind not in kinds or may_equal(value, condition.values) else "no"
    if kind != "number":
        return "unsure"
    bound = cast("float", condition.values[0])
    match condition.operator:
        case "<":
            is_true = value < bound
        case "<=":
            is_true = value <= bound
        case ">":
            is_true = value > bound
        case _:
            is_true = value >= bound
    return "yes" if is_true else "no"


async def _match_folder(value: Any, folder: Value, working_directory: str | None) -> RuleMatch:
    if not isinstance(value, str) or not isinstance(folder, str) or working_directory is None:
        return "unsure"
    containment: Containment = "unsure"
    with anyio.move_on_after(PATH_SECONDS):
        containment = await anyio.to_thread.run_sync(
            check_containment, value, folder, working_directory, abandon_on_cancel=True
        )
    return {"inside": "yes", "outside": "no"}.get(containment, "unsure")  # pyright: ignore[reportReturnType]
