"""Recognition of the lines of a private key in PEM or PGP format.

The lines are also recognized if a logger has added a prefix to them.
"""

import re

_KEY_LINE = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/=]{40,}+")
_SHORT_KEY_LINE = re.compile(r"\A[\s\"']*+[A-Za-z0-9+/]{16,}+=*+[\s\"',+\\]*+")
_KEY_HEADER = re.compile(
    r"\b(?:Proc-Type|DEK-Info|Version|Comment|MessageID|Hash|Charset): |(?<![^\s\"'])=[A-Za-z0-9+/]{4}[\s\"']*+\Z"
)
"""Pattern that matches in headers (RFC 1421, section 4.6; RFC 4880, section 6.2) and in checksums of OpenPGP keys."""


def is_full_line(line: str) -> bool:
    """Return whether a line contains base64 data of a key: a line of full length, or a shorter last line."""
    return bool(_KEY_LINE.search(line) or _SHORT_KEY_LINE.fullmatch(line))


def is_header(line: str) -> bool:
    """Return whether a line contains a header or the checksum of a private key in text form."""
    return _KEY_HEADER.search(line) is not None
