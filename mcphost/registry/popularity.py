"""Popularity of a server: the numbers of downloads, installations and stars that a registry reports."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, cast

from mcphost.pluralize import translate_count
from mcphost.serialization import as_object
from mcphost.translation import _, join_list

Popularity = tuple[tuple[str, int], ...]
"""Pairs of a measure, "downloads", "installs" or "stars", and its number, at most one for each measure."""

MEASURES = ("downloads", "installs", "stars")
MAX_NUMBER = 10**12
"""Maximum plausible number; a larger one is ignored."""

_MAX_SECTIONS = 50
_PUBLISHERS_OWN = "publisher-provided"
"""Part of the name of each metadata section that the server's publisher writes, instead of the registry."""


def read_popularity(metadata: object) -> Popularity:
    """Return a server's numbers of downloads, installations and stars from the `_meta` object of a registry's response.

    If several sections of `_meta` contain, for example, the number of downloads, the first one between 0 and MAX_NUMBER
    is used. Sections that the server's publisher wrote are ignored.
    """
    sections = as_object(metadata)
    found: dict[str, int] = {}
    for name, section in islice(sections.items(), _MAX_SECTIONS):
        if isinstance(section, dict) and _PUBLISHERS_OWN not in name:
            for measure in MEASURES:
                number = cast("Mapping[str, Any]", section).get(measure)
                if type(number) is int and 0 <= number <= MAX_NUMBER:
                    found.setdefault(measure, number)
    return tuple((measure, found[measure]) for measure in MEASURES if measure in found)


def describe_popularity(popularity: Popularity) -> str:
    """Return text such as "5 stars (says the registry)", or "" if there are no numbers."""
    numbers = dict(popularity)
    counts = [
        translate_count(numbers["downloads"], "download") if "downloads" in numbers else "",
        translate_count(numbers["installs"], "install") if "installs" in numbers else "",
        translate_count(numbers["stars"], "star") if "stars" in numbers else "",
    ]
    shown = join_list(filter(None, counts))
    return _("{numbers} (says the registry)").format(numbers=shown) if shown else ""
