"""Tests that a tool definition always has the same digest, however it is encoded, so that approvals stay valid."""

import hashlib
import json
import random
from typing import Any

import pytest

from mcphost.errors import MalformedMessage
from mcphost.host.servers.catalog import fingerprint, fingerprints
from mcphost.serialization import loads

CHARACTERS = 'abc"\\/\x7f<>&é\u2028😀e.E0123456789- \t\n$'
NUMBERS = [0, -1, 2**31, 2**53, 2**63 - 1, 2**64 - 1, 2**64, -(2**63), 10**17, 10**18, 0.1, 1e5, 1e-7, 1e22, -2.5, -0.0]


def canonical_hash(raw: bytes) -> str:
    try:
        canonical = json.dumps(loads(raw), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    except (MalformedMessage, ValueError):
        canonical = raw
    return hashlib.sha256(canonical).hexdigest()


def random_value(chance: random.Random, depth: int = 0) -> Any:
    def text() -> str:
        return "".join(chance.choices(CHARACTERS, k=chance.randrange(6)))

    match chance.randrange(8):
        case 0:
            return chance.choice(NUMBERS)
        case 1:
            return chance.choice([True, False, None])
        case 2 | 3 | 4:
            return text()
        case 5 if depth < 4:
            return [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _ if depth < 4:
            return {text(): random_value(chance, depth + 1) for _ in range(chance.randrange(5))}
        case _:
            return 1


def test_the_digest_is_that_of_the_canonical_form_for_any_definition() -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        made = json.dumps(random_value(chance), ensure_ascii=chance.random() < 0.5)
        raw = made.encode()
        assert fingerprint(raw) == canonical_hash(raw), raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"b":1,"a":{"B":2,"_":3,"A":4}}',
        b'{"a":1,"a":2}',
        b"-0",
        b"1E5",
        b'{"a":1e2}',
        b"123456789012345678901",
        b'"\x7f"',
        b'"\xc3\xa4"',
        b'"\\u00e4"',
        b'"\xff"',
        b"[1.]",
        b"[" * 200,
    ],
)
def test_the_digest_of_odd_json_is_that_of_its_canonical_form_or_of_its_bytes(raw: bytes) -> None:
    assert fingerprint(raw) == canonical_hash(raw)


def test_the_digest_of_a_known_definition_never_changes() -> None:
    raw = b'{"name":"a","inputSchema":{"type":"object","properties":{"n":{"type":"integer","default":10}}}}'
    assert fingerprint(raw) == "da7512f498e6718cc4690a0c19520f60c5230f3cbe8b98926ab9d1c145d6932a"


def test_digests_computed_together_are_those_computed_one_by_one() -> None:
    chance = random.Random(8)
    ordinary = [json.dumps({"b": [number], "a": {"_": number, "A": True}}).encode() for number in range(150)]
    odd = [json.dumps(random_value(chance), ensure_ascii=chance.random() < 0.5).encode() for _ in range(150)]
    broken = [b"[" * 200, b'"\xff"', b'{"a":\n1}', b"{", b"1e400", b""]
    for raws in (ordinary, odd, broken, [*ordinary, *odd, *broken], [*ordinary[:70], b"1,2"], []):
        assert fingerprints(raws) == [canonical_hash(raw) for raw in raws]
