"""Translation of the messages of the JSON Schema library about invalid arguments."""

from functools import cache

from mcphost.translation import N_, SentencePatterns, _, current_language

_MESSAGES = (
    N_('{value} is not of type "{type}"'),
    N_("{value} is not of types {types}"),
    N_("{value} is not one of {choices}"),
    N_("{value} was expected"),
    N_("{value} is shorter than {limit} character"),
    N_("{value} is shorter than {limit} characters"),
    N_("{value} is longer than {limit} character"),
    N_("{value} is longer than {limit} characters"),
    N_("{value} is less than the minimum of {limit}"),
    N_("{value} is greater than the maximum of {limit}"),
    N_("{value} is less than or equal to the minimum of {limit}"),
    N_("{value} is greater than or equal to the maximum of {limit}"),
    N_("{value} is not a multiple of {factor}"),
    N_("{value} does not match {pattern}"),
    N_('{value} is not a "{format}"'),
    N_("{name} is a required property"),
    N_("{value} has less than {limit} item"),
    N_("{value} has less than {limit} items"),
    N_("{value} has more than {limit} item"),
    N_("{value} has more than {limit} items"),
    N_("{value} has non-unique elements"),
    N_("{value} has less than {limit} property"),
    N_("{value} has less than {limit} properties"),
    N_("{value} has more than {limit} property"),
    N_("{value} has more than {limit} properties"),
    N_("{value} is not valid under any of the schemas listed in the '{keyword}' keyword"),
    N_("{value} is valid under more than one of the schemas listed in the '{keyword}' keyword"),
    N_("{schema} is not allowed for {value}"),
    N_("None of {value} are valid under the given schema"),
    N_("False schema does not allow {value}"),
    N_("Additional properties are not allowed ({names} was unexpected)"),
    N_("Additional properties are not allowed ({names} were unexpected)"),
)


@cache
def _patterns(language: str) -> SentencePatterns:
    del language  # the key of the cache
    return SentencePatterns({message: _(message) for message in _MESSAGES})


def translate_violation(message: str) -> str:
    """Translate a message about an invalid value; a message of another form stays as it is."""
    return _patterns(current_language()).translate(message)
