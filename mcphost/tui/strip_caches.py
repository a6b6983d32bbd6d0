"""Patch that makes Textual create the caches of a strip on first use; a strip is a rendered part of a row.

Textual 8.2.8 creates seven caches for each strip, most of which stay empty. A screen with a form has thousands of
strips; their caches made up a quarter of the objects that the garbage collector traversed while the program waited.
"""

from collections.abc import Iterable
from typing import Any, cast

from rich.segment import Segment
from textual.cache import FIFOCache
from textual.strip import Strip

_CACHE_SIZES = {
    "_divide_cache": 4,
    "_crop_cache": 16,
    "_style_cache": 16,
    "_filter_cache": 4,
    "_line_length_cache": 4,
    "_crop_extend_cache": 4,
    "_offsets_cache": 4,
}
"""The caches that `Strip.__init__` creates, with their sizes."""
_OTHER_SLOTS = {"_segments", "_cell_length", "_render_cache", "_link_ids", "_cell_count"}


def create_caches_on_use() -> None:
    """Change Textual's Strip to create each cache when it is first used.

    Do nothing if this version of Textual has other attributes in its strips.
    """
    strip = cast("Any", Strip)
    if set(strip.__slots__) == {*_CACHE_SIZES, *_OTHER_SLOTS}:
        strip.__init__ = _create_strip
        strip.__getattr__ = _create_cache


def _create_strip(strip: Any, segments: Iterable[Segment], cell_length: int | None = None) -> None:
    strip._segments = list(segments)
    strip._cell_length = cell_length
    strip._render_cache = strip._link_ids = strip._cell_count = None


def _create_cache(strip: Any, name: str) -> Any:
    """Create the cache *name*; Python calls this function only for an attribute that does not exist yet.

    Raises AttributeError if *name* is not the name of a cache.
    """
    if name not in _CACHE_SIZES:
        raise AttributeError(name, obj=strip, name=name)
    cache: FIFOCache[Any, Any] = FIFOCache(_CACHE_SIZES[name])
    setattr(strip, name, cache)
    return cache
