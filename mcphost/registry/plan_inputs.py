"""Values that the user enters for the arguments, variables, headers and URLs of a registry entry."""

import csv
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from mcphost.config.risky_variables import classify_variable
from mcphost.errors import RegistryError, UsageError
from mcphost.redact import is_secret_name
from mcphost.registry.entries import InputVariable, RegistryInput
from mcphost.registry.planned_values import FilledLength, ValuePart
from mcphost.sanitize import quote_text, sanitize_line
from mcphost.serialization import Struct, replace

InputPlace = Literal["argument", "environment", "header", "address"]
InputValues = Mapping[str, Sequence[str]]
"""Values entered by the user, keyed by input name."""
MAX_VALUE_LENGTH = 8_192
_MAX_VALUES = 50
_TEMPLATE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.-]{0,99})\}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?")


class PlanInput(Struct, frozen=True, kw_only=True):
    """A value that the user is asked to enter; it can be used in several places of an mcp.json entry."""

    name: str
    place: InputPlace
    description: str = ""
    is_required: bool = False
    is_secret: bool = False
    is_repeated: bool = False
    format: str = "string"
    default: str | None = None
    listed_defaults: tuple[str, ...] = ()
    """Default values of a repeated input if it has several, in which case `default` is None."""

    minimum: float | None = None
    maximum: float | None = None
    placeholder: str = ""
    choices: tuple[str, ...] = ()
    is_user_choice: bool = False
    """Whether only the user may decide the value, so that no default of the entry is used."""

    is_host_path: bool = False
    """Whether the value decides which host folder a container gets; it then has no default, and is never empty."""

    @property
    def defaults(self) -> tuple[str, ...]:
        """The values that are used if the user gives none."""
        return self.listed_defaults or (() if self.default is None else (self.default,))


def input_name(one: RegistryInput, number: int) -> str:
    """Return the name of an input, which the user types in `--set NAME=VALUE`.

    An input has the name of its variable, header or flag. The input of an argument without a name is called after the
    value's hint or, without a hint, after *number*, the position of the argument.
    """
    name = one.name.lstrip("-") or one.value_hint or f"argument-{number}"
    return sanitize_line(name, 100).replace("=", "-")


def is_bare_flag(one: RegistryInput) -> bool:
    """Return whether an argument is a named flag without a value, such as `--verbose`.

    Flags without a value are always passed, without asking the user.
    """
    asks = one.default is not None or one.is_required or one.is_secret or one.format != "string"
    asks = asks or bool(one.choices or one.description or one.placeholder)
    return one.type == "named" and (one.value == "" or (one.value is None and not asks))


def list_inputs(place: InputPlace, ones: Iterable[RegistryInput]) -> Iterator[PlanInput]:
    """Yield the inputs that are needed for the given arguments, environment variables or headers.

    A definition without a fixed value needs one input. A definition with a fixed value needs an input for each variable
    in that value. *place* is the kind of the definitions in *ones*, such as "header".
    """
    for number, one in enumerate(ones, 1):
        if is_bare_flag(one):
            continue
        is_risky = place == "environment" and classify_variable(one.name) is not None
        if one.value is None:
            made = _make_input(input_name(one, number), place, one, is_user_choice=is_risky)
            yield replace(made, is_repeated=one.is_repeated)
        else:
            yield from list_variables(place, one.value, one.variables, is_user_choice=is_risky)


def list_variables(
    place: InputPlace, template: str, variables: Mapping[str, InputVariable], *, is_user_choice: bool = False
) -> Iterator[PlanInput]:
    """Yield an input for each variable in *template* that is defined and has no fixed value.

    *variables* contains the definitions. An input is required if its variable is marked as required, even if the
    header or argument that contains it is not: publishers rarely mark both. *is_user_choice* means that only the
    user may decide the value, so defaults are not used.
    """
    for name in dict.fromkeys(_TEMPLATE.findall(template)):
        variable = variables.get(name)
        if variable is not None and variable.value is None:
            yield _make_input(name, place, variable, is_user_choice=is_user_choice)


def _make_input(name: str, place: InputPlace, one: InputVariable, *, is_user_choice: bool) -> PlanInput:
    return PlanInput(
        name=name,
        place=place,
        description=one.description,
        is_required=one.is_required,
        is_secret=one.is_secret,
        format=one.format,
        # A secret has no default: it would be a value that the publisher chose and that the user does not see.
        default=None if is_user_choice or one.is_secret else one.default,
        placeholder=one.placeholder,
        choices=one.choices,
        is_user_choice=is_user_choice,
    )


def merge_inputs(inputs: Iterable[PlanInput]) -> tuple[PlanInput, ...]:
    """Merge inputs that have the same name.

    A merged input is secret or required if any of the original inputs is. It has no default if it is secret, or if only
    the user may decide the value of one of the original inputs.
    """
    merged: dict[str, PlanInput] = {}
    for one in inputs:
        known = merged.get(one.name)
        if known is None:
            merged[one.name] = one
            continue
        is_user_choice = known.is_user_choice or one.is_user_choice
        default = known.default if known.default is not None else one.default
        merged[one.name] = replace(
            known,
            is_required=known.is_required or one.is_required,
            is_secret=known.is_secret or one.is_secret,
            description=known.description or one.description,
            default=None if is_user_choice else default,
            is_user_choice=is_user_choice,
        )
    return tuple(replace(one, default=None) if one.is_secret else one for one in merged.values())


def check_texts(ones: Iterable[RegistryInput], place: InputPlace) -> None:
    """Check the names, fixed values, defaults and choices of the definitions in *ones*.

    *place* is the kind of definitions, such as "header". Raises RegistryError for a reference such as `${env:NAME}`
    or `${keyring:NAME}`, which would send the user's secrets to the server. Also raises RegistryError for
    environment variables that change which code programs load, how they connect, or where they find their settings.
    """
    for one in ones:
        variables = list(one.variables.values())
        for text in (one.name, one.value, one.default, *one.choices, *variable_texts(variables)):
            check_text(text or "")
        if place == "environment" and one.value is not None:
            _check_variable(one, one.value)


def _check_variable(one: RegistryInput, value: str) -> None:
    """Raise RegistryError if an entry sets an environment variable that only the user may set.

    *value* is the value in the entry. Any value is rejected unless it consists of a single variable that the user
    enters.
    """
    risk = classify_variable(one.name)
    match = _TEMPLATE.fullmatch(value)
    variable = one.variables.get(match[1]) if match is not None else None
    if risk is None or (variable is not None and variable.value is None):
        return
    if risk in ("code", "packages"):
        raise RegistryError(
            f"The entry sets {one.name} to {quote_text(value)}, which decides which code programs load."
        )
    raise RegistryError(
        f"The entry sets {one.name} to {quote_text(value)}, "
        "which decides where programs connect or find their settings."
    )


def variable_texts(variables: Iterable[InputVariable]) -> Iterator[str]:
    """Yield the fixed values, defaults and choices of *variables*."""
    for variable in variables:
        yield from (variable.value or "", variable.default or "", *variable.choices)


def check_text(text: str) -> None:
    """Check that text from a registry entry is safe in a command, environment variable, header or URL.

    Raises RegistryError if the text contains `${`, or control or invisible characters.
    """
    if "${" in text:
        raise RegistryError(f"The entry has the reference {quote_text(text)}, and could read your secrets with it.")
    if not text.isprintable():
        raise RegistryError(f"The value {quote_text(text)} has control or invisible characters.")


def split_values(one: PlanInput, text: str) -> list[str]:
    """Return the values that the user typed in one line for an input.

    In *text*, the values of a repeated input are separated by commas; a value that contains a comma must be in double
    quotes. For a secret, or an input that is not repeated, *text* is the only value.
    """
    if not one.is_repeated or one.is_secret:
        return [text]
    try:
        (row,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (ValueError, csv.Error):  # a quote that is not closed, or several lines
        return [text]
    return [value.strip() for value in row if value.strip()]


def check_value(one: PlanInput, text: str) -> str:
    """Check and normalize *text*, the value that the user entered for an input.

    Paths are made absolute, and booleans are converted to lower case. Raises UsageError if the value is invalid.
    """
    problem = ""  # a whole sentence, because it is translated as one
    if len(text) > MAX_VALUE_LENGTH:
        problem = f"The value of {one.name} has more than {MAX_VALUE_LENGTH:,} characters."
    elif not text.replace("\n", "" if one.place == "environment" else "\n").isprintable():
        problem = f"The value of {one.name} has control or invisible characters."
    elif one.is_host_path and not text:
        problem = f"The value of {one.name} is empty."
    elif one.choices and text not in one.choices:
        choices = sanitize_line(", ".join(one.choices), 500)
        problem = f"The value of {one.name} is none of: {choices}."
    elif one.format == "number" and not _NUMBER.fullmatch(text):
        problem = f"The value of {one.name} is not a number."
    elif one.format == "number" and one.minimum is not None and float(text) < one.minimum:
        problem = f"The value of {one.name} is less than {one.minimum:.15g}."
    elif one.format == "number" and one.maximum is not None and float(text) > one.maximum:
        problem = f"The value of {one.name} is more than {one.maximum:.15g}."
    elif one.format == "boolean" and text.lower() not in ("true", "false"):
        problem = f"The value of {one.name} is not true or false."
    if problem:
        raise UsageError(problem, f"Set another one: --set {one.name}=VALUE")
    if one.format == "boolean":
        return text.lower()
    if one.format == "filepath" and text and "${" not in text:
        return os.path.abspath(os.path.expanduser(text))
    return text


def check_values(inputs: Sequence[PlanInput], given: InputValues) -> dict[str, tuple[str, ...]]:
    """Check the user's values, and return the values of all inputs, keyed by input name.

    If the user gave no value, the default is used; an input without a default is omitted. Raises UsageError for an
    invalid value, for too many values, and for a secret in a command or URL.
    """
    values: dict[str, tuple[str, ...]] = {}
    for one in inputs:
        texts = given.get(one.name)
        if texts is None:
            texts = one.defaults
        elif one.is_secret and one.place in ("argument", "address"):
            raise UsageError(
                f"{one.name} is a secret that becomes part of the command, which others can read."
                if one.place == "argument"
                else f"{one.name} is a secret that becomes part of the address, which others can read.",
                "Leave it out, or add the server by hand if you trust it: mcphost servers add NAME -- COMMAND",
            )
        if len(texts) > (_MAX_VALUES if one.is_repeated else 1):
            raise UsageError(f"{one.name} has {len(texts)} values.", "Pass fewer values.")
        if texts:
            values[one.name] = tuple(check_value(one, text) for text in texts)
    return values


def exposure_notes(inputs: Iterable[PlanInput], values: InputValues) -> tuple[str, ...]:
    """Return a note for each probable secret that is used in a command or URL, where others can read it.

    A value is probably a secret if the name of its input suggests one, such as "API_KEY".
    """
    return tuple(
        f"{one.name} looks like a secret, and others can read it in the command."
        if one.place == "argument"
        else f"{one.name} looks like a secret, and is saved in plain text as part of the address."
        for one in inputs
        if one.place in ("argument", "address") and one.name in values and is_secret_name(one.name)
    )


def make_part(one: PlanInput, text: str, *, is_secret: bool = False) -> ValuePart:
    """Return *text*, the value of an input, as a part of a planned value.

    The part counts as the publisher's text if *text* is the input's default, and otherwise as the user's. *is_secret*
    means that the complete value is declared secret.
    """
    defaults = set(one.defaults)
    for default in one.defaults:
        with suppress(UsageError):
            defaults.add(check_value(one, default))
    return ValuePart(text, is_typed=text not in defaults, is_secret=is_secret or one.is_secret)


class ValueSource:
    """Source of checked input values for the variables in templates.

    *show_missing* is for a result that is only displayed: a required input without a value is replaced by a
    placeholder.
    """

    def __init__(self, inputs: Sequence[PlanInput], values: Mapping[str, Sequence[str]], *, show_missing: bool) -> None:
        self._values = values
        self._show_missing = show_missing
        self._inputs = {one.name: one for one in inputs}
        self._filled = FilledLength()

    def values_of(self, one: RegistryInput, number: int) -> tuple[str, ...]:
        """Return the values of an argument, environment variable or header; () means that it is omitted.

        *number* is the position of the argument, which identifies an argument without a name.
        """
        if one.value is not None:
            text = self.fill(one.value, one.variables)
            return () if text is None else (text,)
        name = input_name(one, number)
        return tuple(self._values.get(name, ())) or self._missing(name)

    def fill(self, template: str, variables: Mapping[str, InputVariable]) -> str | None:
        """Replace the variables in *template*; return None if one of them has no value.

        Raises RegistryError if the result contains a `${…}` reference that the user did not enter, or if all results
        together are too long.
        """
        parts = self._split(template, variables)
        return None if parts is None else "".join(part.text for part in parts)

    def parts_of(self, one: RegistryInput, number: int) -> tuple[ValuePart, ...]:
        """Return the value of an environment variable or header in parts; () means that it is omitted.

        See `values_of` for *number*, and `fill` for the errors.
        """
        if one.value is not None:
            return self._split(one.value, one.variables, is_secret=one.is_secret) or ()
        name = input_name(one, number)
        values = self.values_of(one, number)
        return (make_part(self._inputs[name], values[-1], is_secret=one.is_secret),) if values else ()

    def _split(
        self, template: str, variables: Mapping[str, InputVariable], *, is_secret: bool = False
    ) -> tuple[ValuePart, ...] | None:
        parts: list[ValuePart] = []
        references = 0
        for at, piece in enumerate(_TEMPLATE.split(template)):
            variable = variables.get(piece) if at % 2 else None
            if variable is None:  # literal text, or an unknown name in braces
                parts.append(ValuePart(f"{{{piece}}}" if at % 2 else piece))
            elif variable.value is not None:
                parts.append(ValuePart(variable.value))
            else:
                found = tuple(self._values.get(piece, ())) or self._missing(piece)
                if not found:
                    return None
                parts.append(make_part(self._inputs[piece], found[0], is_secret=is_secret))
            self._filled.count(parts[-1].text)
            references += parts[-1].text.count("${") if variable is not None else 0
        # Only the user's values may contain references, and two adjacent parts must not form one together.
        if "".join(part.text for part in parts).count("${") != references:
            raise RegistryError(f"The value {quote_text(template)} has a reference, which could read your secrets.")
        return tuple(parts)

    def _missing(self, name: str) -> tuple[str, ...]:
        one = self._inputs.get(name)
        return (f"<{name}>",) if self._show_missing and one is not None and one.is_required else ()


def argument_words(
    ones: Sequence[RegistryInput], source: ValueSource, check_flag: Callable[[str], None]
) -> tuple[str, ...]:
    """Convert arguments to command-line words: `--name=value`, `-n value`, or only the value.

    *check_flag* is called with the name of each named argument, and raises an error if the name is not allowed. Raises
    UsageError if a program would read one of the user's values as an option.
    """
    words: list[str] = []
    for number, one in enumerate(ones, 1):
        if one.type == "named":
            check_flag(one.name)
        if is_bare_flag(one):
            words.append(one.name)
            continue
        is_fixed = one.value is not None and not _TEMPLATE.search(one.value)
        for value in source.values_of(one, number):
            if one.type == "named" and not (one.name.startswith("-") and not one.name.startswith("--")):
                words.append(f"{one.name}={value}")
                continue
            if value.startswith("-") and not is_fixed:
                raise UsageError(
                    f"The value of {input_name(one, number)} begins with a dash, so it would be read as an option.",
                    "Use another value, for example ./-name for a file.",
                )
            words += [one.name, value] if one.type == "named" else [value]
    return tuple(words)
