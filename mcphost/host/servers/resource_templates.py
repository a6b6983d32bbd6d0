"""Resource templates (RFC 6570): variables and expansion, by uritemplate."""

import re
from collections.abc import Mapping
from urllib.parse import quote

from mcphost.errors import UsageError

TEMPLATE_LIMIT = 8_192
TEMPLATE_URI_LIMIT = 8_192
TEMPLATE_VALUE_LIMIT = 8_192
VARIABLE_LIMIT = 100
_URI_CHARACTERS = ":/?#[]@!$&'()*+,;=%"  # RFC 3986, besides letters, digits and -._~
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_EXPRESSION = re.compile(r"\{([^{}]*)\}")


def template_variables(template: str) -> tuple[str, ...]:
    """Return the distinct variable names in order. Raises UsageError for an invalid template."""
    from uritemplate import URITemplate  # imported late: forms are rare

    _check_template(template)
    try:
        names = tuple(URITemplate(template).variable_names)
    except (ValueError, IndexError) as error:
        raise _template_error(template, "one of its variables cannot be read") from error
    if len(names) > VARIABLE_LIMIT:
        raise _template_error(template, f"it has over {VARIABLE_LIMIT} variables")
    return names


def required_variables(template: str) -> tuple[str, ...]:
    """Return the variables that must have a value; those of queries, fragments and the like may be empty.

    Raises UsageError for an invalid template.
    """
    known = template_variables(template)
    expressions = [
        expression.lstrip("+") for expression in _EXPRESSION.findall(template) if expression[0] not in "?&;#./"
    ]
    names = {
        part.split(":")[0].split("=")[0].rstrip("*") for expression in expressions for part in expression.split(",")
    }
    return tuple(name for name in known if name in names)


def expand_template(template: str, values: Mapping[str, str]) -> str:
    """Return the address with percent-encoded values; omit variables without a value (RFC 6570).

    Raises UsageError for an invalid template, an unknown variable, and a value or address that is too long.
    """
    from uritemplate import URITemplate

    known = template_variables(template)
    for name, value in values.items():
        if name not in known:
            raise UsageError(
                f"The template {_display_template(template)} has no variable {name[:100]!r}.",
                f"Its variables: {', '.join(known)[:500] or 'none'}.",
            )
        if len(value) > TEMPLATE_VALUE_LIMIT:
            raise UsageError(f"The value of {name[:100]!r} is over {TEMPLATE_VALUE_LIMIT:,} characters.", "Shorten it.")
    try:
        expanded = URITemplate(template).expand(dict(values))
        # The library does not encode literals, nor a reserved value with a triplet in it.
        address = _LONE_PERCENT.sub("%25", quote(expanded, safe=_URI_CHARACTERS))
    except (ValueError, IndexError) as error:
        raise UsageError(
            f"A value for {_display_template(template)} cannot be part of an address.", "Correct it."
        ) from error
    if not address or len(address) > TEMPLATE_URI_LIMIT:
        raise UsageError(
            f"The address expanded from {_display_template(template)} is {'empty' if not address else 'too long'}.",
            "Change the values.",
        )
    return address


def _check_template(template: str) -> None:
    if len(template) > TEMPLATE_LIMIT:
        raise _template_error(template, f"it is over {TEMPLATE_LIMIT:,} characters")
    rest = _EXPRESSION.sub("", template)
    if "{" in rest or "}" in rest:
        raise _template_error(template, "its braces do not match")
    for expression in _EXPRESSION.findall(template):
        if not expression or expression[0] in "=,!@|":
            raise _template_error(template, f"{{{expression[:50]}}} has no meaning in RFC 6570")


def _template_error(template: str, why: str) -> UsageError:
    return UsageError(f"The template {_display_template(template)} cannot be used: {why}.", "Tell the server's author.")


def _display_template(template: str) -> str:
    return repr(template[:200])
