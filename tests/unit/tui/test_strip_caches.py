"""Tests for strips, the drawn pieces of rows, whose caches are created when they are used."""

import pytest
from rich.segment import Segment
from textual.cache import FIFOCache
from textual.strip import Strip

from mcphost.tui.strip_caches import create_caches_on_use

create_caches_on_use()
CACHES = [name for name in Strip.__slots__ if name.endswith("_cache") and name != "_render_cache"]


def existing_caches(strip: Strip) -> list[str]:
    """Return the names of the caches that the strip has, without creating any."""
    names: list[str] = []
    for name in CACHES:
        try:
            object.__getattribute__(strip, name)
        except AttributeError:
            continue
        names.append(name)
    return names


def test_a_strip_creates_a_cache_when_it_is_first_used_and_keeps_it() -> None:
    strip = Strip([Segment("some text")], 9)
    assert existing_caches(strip) == []
    part = strip.crop(0, 4)
    assert (part.text, existing_caches(strip)) == ("some", ["_crop_cache"])
    assert strip.crop(0, 4) is part


@pytest.mark.parametrize("name", CACHES)
def test_every_cache_can_be_created(name: str) -> None:
    strip = Strip([Segment("text")])
    cache = getattr(strip, name)
    assert isinstance(cache, FIFOCache)
    assert getattr(strip, name) is cache


def test_an_attribute_that_a_strip_does_not_have_is_reported() -> None:
    with pytest.raises(AttributeError, match="colour"):
        _ = Strip([]).colour  # type: ignore[attr-defined]
