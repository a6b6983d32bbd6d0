"""Tests for the index that finds the watched URIs to which a resource update applies."""

import random

from mcphost.protocol.resources import UriIndex


def is_update_of(uri: str, watched: str) -> bool:
    """Return whether *uri* is *watched*, or extends it with a path, query or fragment."""
    if not uri.startswith(watched):
        return False
    rest = uri[len(watched) :]
    return not rest or rest[0] in "/#?" or watched[-1:] in ("", "/", "#", "?")


def test_an_index_finds_the_same_uris_as_a_comparison_with_each_of_them() -> None:
    chance = random.Random(5)

    def make_uri() -> str:
        return "".join(chance.choices("a/#?", k=chance.randrange(6)))

    index, present = UriIndex(), set[str]()
    for _ in range(2_000):
        uri = make_uri()
        if chance.random() < 0.5:
            index.add(uri)
            present.add(uri)
        else:
            index.discard(uri)
            present.discard(uri)
        update = make_uri()
        assert index.find(update) == sorted((uri for uri in present if is_update_of(update, uri)), key=len)
