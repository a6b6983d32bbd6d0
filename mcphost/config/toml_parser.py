"""Parser for TOML files, with limits on what takes `tomllib` more than linear time or much memory."""

import re
import tomllib
from typing import Any

from mcphost.errors import ConfigError

_COUNTED_CHARACTERS = "=[{,.\n\\"
_MAX_COUNTED_CHARACTERS = 12_000
_MAX_KEY_PARTS = 50

# Possessive, and without a required end, so that the pattern takes linear time.
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
    """Parse TOML in time proportional to its length. Raises ConfigError with the name *file* and the reason."""
    _check_limits(text, file)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        reason = str(error)[:300] or type(error).__name__
        raise ConfigError(f"{file}: not valid TOML: {reason}.", "Correct the file there.") from error


def _check_limits(text: str, file: str) -> None:
    """Raise ConfigError if *text* would take too long to parse."""
    if sum(map(text.count, _COUNTED_CHARACTERS)) > _MAX_COUNTED_CHARACTERS:
        raise ConfigError(
            f"{file}: more than {_MAX_COUNTED_CHARACTERS:,} keys, values, lines and escapes.", "Is it the right file?"
        )
    if text.count(".") <= _MAX_KEY_PARTS:
        return
    # The parser's time is quadratic in the number of parts of a key, also if the key is not followed by a value.
    for line in _STRING_OR_COMMENT.sub("", text).split("\n"):
        if line.count(".") > _MAX_KEY_PARTS and any(
            part.count(".") > _MAX_KEY_PARTS for part in _KEY_BOUNDARY.split(line)
        ):
            raise ConfigError(f"{file}: a key of more than {_MAX_KEY_PARTS} parts.", "Correct the file there.")
