"""Custom slash commands: Markdown files `commands/NAME.md` with front matter and a prompt template.

In a template, `$ARGUMENTS`, `$1` to `$9`, and `{name}` for a declared argument are replaced; no shell is involved.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from stat import S_ISDIR
from typing import Any, cast

from mcphost.config.project_texts import (
    ProjectPlaces,
    ProjectText,
    find_command_folders,
    read_project_text,
    split_lines,
)
from mcphost.errors import MalformedMessage, UsageError
from mcphost.pluralize import pluralize
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import Struct

MAX_COMMANDS = 200
"""Maximum number of commands of the user, and likewise of the project."""

MAX_FRONT_MATTER = 64_000
"""Maximum characters of the front matter of all commands in a folder; parsing that much takes 50 ms."""

MAX_REPORTS = 10
"""Maximum number of files in a folder that are reported one by one."""

MAX_ARGUMENTS = 20
MAX_FILLED_CHARACTERS = 200_000
_NAME = re.compile(r"[^\W\d_][\w-]{0,39}")
_PLACEHOLDER = re.compile(r"\$ARGUMENTS\b|\$([1-9])(?!\d)|\{([^\W\d_][\w-]{0,39})\}")
# A shell word, and a part of one. Used because `shlex` takes quadratic time for a long word; possessive to be linear.
_WORD = re.compile(r"""(?:[^ \t\r\n"'\\]++|\\.|"(?:[^"\\]|\\.)*+"|'[^']*+')++""", re.DOTALL)
_WORD_PART = re.compile(r"""\\(.)|"((?:[^"\\]|\\.)*+)"|'([^']*+)'""", re.DOTALL)
_QUOTED_ESCAPE = re.compile(r"""\\(["\\])""")
_FENCE = re.compile(r"---[ \t]*(?:\r\n|\r|\n)")
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n|\r|\n|\Z)", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:[xuU][0-9A-Fa-f]{2}|[ \t]*[\r\n])")
_FIELDS = ("description", "arguments", "model", "send")
_ARGUMENT_FIELDS = ("name", "description", "default")
_MAX_SHOWN = 60


class CommandArgument(Struct, frozen=True):
    """An argument of a slash command; the argument is required if `default` is None."""

    name: str
    description: str = ""
    default: str | None = None


class CustomCommand(Struct, frozen=True, kw_only=True):
    """A custom slash command with its prompt template.

    - `name` includes the subfolder of `commands` that contains the file, if any, as in `git:commit`.
    - `text` is the whole file, including the front matter; the user approves this text.
    - `model` is the model to switch to, or "" to keep the current one.
    - `is_sent` means that the prompt is sent immediately instead of being placed in the input field.
    """

    name: str
    description: str
    template: str
    text: ProjectText
    arguments: tuple[CommandArgument, ...] = ()
    model: str = ""
    is_sent: bool = False

    @property
    def usage(self) -> str:
        """The arguments as displayed after the command's name, such as `path [focus]`; brackets mean "optional"."""
        return " ".join(one.name if one.default is None else f"[{one.name}]" for one in self.arguments)


def read_commands(places: ProjectPlaces, on_problem: Callable[[str], None]) -> tuple[CustomCommand, ...]:
    """Read the user's slash commands, then the project's.

    A file that cannot be used is reported and skipped. So is a file whose command name is already taken, so that a
    project cannot replace the user's commands. Blocks while reading.
    """
    commands: dict[str, CustomCommand] = {}
    for folder, bound in find_command_folders(places):
        problems: list[str] = []
        _read_folder(folder, bound, commands, problems.append)
        for problem in problems[:MAX_REPORTS]:
            on_problem(problem)
        if len(problems) > MAX_REPORTS:
            rest = pluralize(len(problems) - MAX_REPORTS, "more file")
            on_problem(f"{_shown(folder)}: {rest} cannot be used for similar reasons.")
    return tuple(commands.values())


def _read_folder(
    folder: Path, bound: Path | None, commands: dict[str, CustomCommand], on_problem: Callable[[str], None]
) -> None:
    """Add the commands in a folder to *commands*, and report unusable files to *on_problem*.

    *bound* is the project's root folder, which must contain the files; it is None for the user's own commands.
    """
    remaining = MAX_FRONT_MATTER
    for name, path in _command_files(folder, bound, on_problem):
        text = read_project_text(path, bound, on_problem)
        if text is None:
            continue
        if name in commands:
            on_problem(f"{_shown(path)} is not used: {_shown(commands[name].text.path)} already has that name.")
            continue
        remaining -= _front_matter_length(text.text)
        if remaining < 0:
            on_problem(
                f"{_shown(path)} and later ones are not used: the front matter of all commands together "
                f"exceeds {MAX_FRONT_MATTER // 1_000} kB."
            )
            return
        try:
            commands[name] = parse_command(name, text)
        except MalformedMessage as error:
            on_problem(f"{_shown(path)} is not used: {sanitize(error.message, keep_newlines=False)}")


def _command_files(folder: Path, bound: Path | None, on_problem: Callable[[str], None]) -> Iterator[tuple[str, Path]]:
    """Yield the command name and path of each `*.md` file in a folder and its subfolders, sorted by name.

    *bound* is the project's root folder, or None for the user's own commands. A project's folder that is a link to a
    place outside of *bound* is reported to *on_problem*, and its files are left out.
    """
    found: list[tuple[str, Path]] = []
    inside = _list_folder(folder, bound, on_problem)
    found += [(one.stem, one) for one in inside if one.suffix == ".md"]
    for place in sorted(one for one in inside if _is_folder(one, on_problem))[:MAX_COMMANDS]:
        names = _list_folder(place, bound, on_problem)
        found += [(f"{place.name}:{one.stem}", one) for one in names if one.suffix == ".md"]
    if len(found) > MAX_COMMANDS:
        on_problem(f"{_shown(folder)} has {len(found):,} commands; the first {MAX_COMMANDS} are used.")
    for name, path in sorted(found)[:MAX_COMMANDS]:
        if all(_NAME.fullmatch(part) for part in name.split(":")):
            yield name, path
        else:
            on_problem(f"{_shown(path)} is not used: its name may have letters, digits, - and _ only.")


def _list_folder(folder: Path, bound: Path | None, on_problem: Callable[[str], None]) -> list[Path]:
    """Return the entries of a folder; [] if it is missing, cannot be read, or is a link to a place outside of *bound*.

    Such a link, and a folder that cannot be read, are reported to *on_problem*.
    """
    try:
        if bound is not None and not Path(os.path.realpath(folder)).is_relative_to(bound):
            if os.path.lexists(folder):
                on_problem(f"{_shown(folder)} is not used: it is a link that leads out of the project.")
            return []
        return list(folder.iterdir())
    except FileNotFoundError:  # most users have no such folder
        return []
    except OSError as error:
        reason = error.strerror or "no reason given"
        on_problem(f"The commands in {_shown(folder)} are not used: {reason}. Check the folder and its permissions.")
        return []


def _is_folder(path: Path, on_problem: Callable[[str], None]) -> bool:
    """Return whether a path is a folder; False if it does not exist or cannot be examined.

    If the path cannot be examined, for example because a search permission is missing, this is reported to
    *on_problem*. A `*.md` file that cannot be examined is not reported here, but when it is read.
    """
    try:
        return S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):  # a link to nothing
        return False
    except OSError as error:
        if path.suffix != ".md":
            on_problem(f"Not used: {sanitize(str(error), keep_newlines=False)}")
        return False


def _front_matter_length(text: str) -> int:
    text = text.removeprefix("\ufeff")
    begin = _FENCE.match(text)
    end = _END.search(text, begin.end()) if begin else None
    return end.end() if end else 0


def parse_command(name: str, text: ProjectText) -> CustomCommand:
    """Parse the file of a slash command; front matter is optional.

    Raises MalformedMessage with a sentence that describes what is wrong with the file.
    """
    whole = text.text.removeprefix("\ufeff")
    if not _FENCE.match(whole):
        return CustomCommand(name=name, description="", template=whole.strip(), text=text)
    from mcphost.protocol.frontmatter import parse_frontmatter  # imports PyYAML

    fields = parse_frontmatter(whole)
    end = _END.search(whole, _FENCE.match(whole).end())  # pyright: ignore[reportOptionalMemberAccess]
    front_matter = whole[: end.start()] if end else whole
    _check_keys(fields, _FIELDS, front_matter)
    template = whole[end.end() :].strip() if end else ""
    send = _read_text(fields, "send") or "false"
    if send not in ("true", "false"):
        raise MalformedMessage('Its field "send" is not true or false.')
    command = CustomCommand(
        name=name,
        description=_read_text(fields, "description"),
        template=template,
        text=text,
        arguments=_read_arguments(fields.get("arguments", []), front_matter),
        model=_read_text(fields, "model"),
        is_sent=send == "true",
    )
    if not text.is_own:
        _check_escapes(command, front_matter)
    return command


def _check_escapes(command: CustomCommand, front_matter: str) -> None:
    """Raise MalformedMessage if a value in the front matter is written with YAML escape sequences.

    The user approves the text of the file, in which escape sequences would hide what a value really contains.
    """
    values = [command.description, command.model]
    for one in command.arguments:
        values += [one.name, one.description, one.default or ""]
    if len(_ESCAPE.findall(front_matter)) > sum(len(_ESCAPE.findall(value)) for value in values):
        raise MalformedMessage(
            "Its front matter has escape sequences, which hide what it says. Write the characters themselves."
        )


def _read_text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name, "")
    value = value if isinstance(value, str) else getattr(value, "text", None)
    if value is None:
        raise MalformedMessage(f'Its field "{name}" is not a string.')
    return cast("str", value)


def _check_keys(fields: Mapping[str, Any], known: Sequence[str], front_matter: str) -> None:
    """Raise MalformedMessage for the first key in *fields* that is not in *known*.

    The message contains the key's line in *front_matter*, and the most similar known key or else all known keys.
    """
    unknown = next((key for key in fields if key not in known), None)
    if unknown is None:
        return
    lines = enumerate(split_lines(front_matter), 1)
    line = next((number for number, text in lines if _has_key(text, unknown)), 1)
    shown = sanitize_line(unknown, _MAX_SHOWN)
    near = next(iter(get_close_matches(unknown[:_MAX_SHOWN].lower(), known, 1)), "")
    if near:
        raise MalformedMessage(f'Line {line} of its front matter has the unknown key "{shown}". Did you mean "{near}"?')
    names = ", ".join(known)
    raise MalformedMessage(f'Line {line} of its front matter has the unknown key "{shown}". Known keys: {names}.')


def _has_key(line: str, key: str) -> bool:
    before, found, after = line.partition(key)
    return bool(found) and not before[-1:].isalnum() and after.lstrip("\"' \t").startswith(":")


def _read_arguments(entries: Any, front_matter: str) -> tuple[CommandArgument, ...]:
    """Parse `arguments` in the front matter, such as `[path, {name: focus, description: …, default: …}]`.

    *entries* is the parsed list, and *front_matter* is the text from which error messages take line numbers. Raises
    MalformedMessage if an argument is invalid, or if there are too many.
    """
    if not isinstance(entries, list) or len(cast("list[Any]", entries)) > MAX_ARGUMENTS:
        raise MalformedMessage(f'Its field "arguments" is not a list of at most {MAX_ARGUMENTS} arguments.')
    arguments: list[CommandArgument] = []
    for entry in cast("list[Any]", entries):
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {"name": entry}
        _check_keys(fields, _ARGUMENT_FIELDS, front_matter)
        name = _read_text(fields, "name")
        if not _NAME.fullmatch(name):
            raise MalformedMessage('Its arguments have "name", "description" and "default", and simple names.')
        if any(one.name == name for one in arguments):
            raise MalformedMessage(f"It has the argument {name!r} twice.")
        default = _read_text(fields, "default") if "default" in fields else None
        arguments.append(CommandArgument(name, _read_text(fields, "description"), default))
    return tuple(arguments)


def split_arguments(command: CustomCommand, typed: str) -> dict[str, str]:
    """Split *typed* into values of the command's arguments, given as `name=value` or by position.

    The last argument gets all remaining words. Text in quotation marks counts as a single word. Raises UsageError if
    *typed* is too long.
    """
    if len(typed) > MAX_FILLED_CHARACTERS:
        raise _too_long_error()
    names = [one.name for one in command.arguments]
    given: dict[str, str] = {}
    free: list[str] = []
    for word in _split_words(typed):
        name, equals, value = word.partition("=")
        if equals and name in names and name not in given:
            given[name] = value
        else:
            free.append(word)
    open_names = [name for name in names if name not in given]
    for at, name in enumerate(open_names):
        words = free[at:] if at == len(open_names) - 1 else free[at : at + 1]
        if words:
            given[name] = " ".join(words)
    return given


def _split_words(typed: str) -> list[str]:
    """Split text into words like a POSIX shell, or only at white space if a quotation mark is not closed."""
    if _WORD.sub("", typed).strip(" \t\r\n"):
        return typed.split()  # an apostrophe, for example
    return [_WORD_PART.sub(_unquote, word) for word in _WORD.findall(typed)]


def _unquote(part: re.Match[str]) -> str:
    escaped, double, single = part.groups()
    return escaped or single or _QUOTED_ESCAPE.sub(r"\1", double or "")


def _too_long_error() -> UsageError:
    return UsageError("The arguments are too long.", "Attach the text instead: @")


def missing_arguments(command: CustomCommand, given: Mapping[str, str]) -> tuple[CommandArgument, ...]:
    """Return the required arguments that have no value in *given*."""
    return tuple(one for one in command.arguments if one.default is None and not given.get(one.name))


def fill_template(command: CustomCommand, typed: str, given: Mapping[str, str]) -> str:
    """Return a command's template with the arguments filled in.

    `$ARGUMENTS` is replaced by *typed*, the text of all arguments, and `$1` to `$9` by the words in it. `{name}` is
    replaced by the value in *given*, or else by the argument's default. A placeholder inside a value is not
    replaced. If the template has no placeholder, *typed* is appended. Raises UsageError if the result is too long.
    """
    values = {one.name: given.get(one.name) or one.default or "" for one in command.arguments}
    words: list[str] | None = None
    used = False

    def replace(match: re.Match[str]) -> str:
        nonlocal used, words
        position, name = match[1], match[2]
        if name is not None and name not in values:
            return match[0]  # braces that belong to the text
        used = True
        if name is not None:
            return values[name]
        if position is not None:
            words = _split_words(typed) if words is None else words
            return words[int(position) - 1] if int(position) <= len(words) else ""
        return typed

    if len(command.template) * max(1, len(typed), *map(len, values.values())) > 100 * MAX_FILLED_CHARACTERS:
        raise _too_long_error()
    filled = _PLACEHOLDER.sub(replace, command.template)
    if typed and not used:
        filled = f"{filled}\n\n{typed}"
    if len(filled) > MAX_FILLED_CHARACTERS:
        raise UsageError(f"The filled text is over {MAX_FILLED_CHARACTERS:,} characters.", "Shorten the arguments.")
    return filled


def _shown(path: "Path | str") -> str:
    return sanitize(str(path), keep_newlines=False)
