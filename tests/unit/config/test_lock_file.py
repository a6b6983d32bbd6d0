"""Tests for the lock file: the same servers give the same bytes, and anything invalid gives one clear error."""

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.lock_file import (
    MAX_LOCK_BYTES,
    LockDocument,
    LockedIdentity,
    LockedServer,
    LockedTool,
    encode_lock,
    parse_lock,
    read_lock,
    shown_definition,
    write_lock,
)
from mcphost.errors import ConfigError

DIGEST = f"sha256:{'0' * 64}"


def document(**definition: Any) -> LockDocument:
    tool = LockedTool(digest=DIGEST, definition=definition)
    identity = LockedIdentity(name="s", protocol_version="2025-11-25")
    return LockDocument(servers={"s": LockedServer(command=("run",), identity=identity, tools={"t": tool})})


def lock(**server: Any) -> bytes:
    return json.dumps({"lockVersion": 3, "servers": {"s": server}}).encode()


def test_a_lock_is_read_back_as_it_was_written() -> None:
    written = document(description="Größe \u202e \ud800 語", inputSchema={"b": [1.5, None, True], "a": {}})
    raw = encode_lock(written)
    assert parse_lock(raw, "mcphost.lock") == written
    assert encode_lock(parse_lock(raw, "mcphost.lock")) == raw
    assert raw.endswith(b"}\n")
    assert "Größe \\u202e \\ud800 語" in raw.decode()


def test_keys_are_sorted_and_each_has_a_line() -> None:
    lines = encode_lock(document(title="T", description="D")).decode().splitlines()
    keys = [line.strip().partition(":")[0] for line in lines if line.startswith(" " * 12)]
    assert keys == ['"description"', '"title"']


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "line 1, column 1: expecting value."),
    "not UTF-8": (b'{"lockVersion": 3, "servers": {"\xff": {}}}', "not UTF-8 text"),
    "a list": (b"[]", "it contains a list, not an object."),
    "deep": (b'{"lockVersion": 3, "servers": ' + b"[" * 10_000, "nested deeper than 128 levels."),
    "many values": (b'{"lockVersion": 3, "servers": [' + b"0," * 200_000 + b"0]}", "more than 100,000 JSON values."),
    "a key twice": (b'{"lockVersion": 3, "servers": {}, "servers": {}}', "the key 'servers' twice"),
    "NaN": (b'{"lockVersion": NaN}', "the constant NaN is not JSON."),
    "huge number": (b'{"lockVersion": ' + b"9" * 5_000 + b"}", "is not valid"),
    "large version": (b'{"lockVersion": ' + b"9" * 3_000 + b"}", '"lockVersion" a huge number'),
    "no version": (b'{"servers": {}}', 'it has no "lockVersion" that is a whole number.'),
    "a version that is true": (b'{"lockVersion": true}', 'it has no "lockVersion" that is a whole number.'),
    "a later version": (b'{"lockVersion": 4}', '"lockVersion" 4; this mcphost reads only 3.'),
    "an earlier version": (b'{"lockVersion": 1, "servers": {}}', '"lockVersion" 1; this mcphost reads only 3.'),
    "an unknown key": (lock(shell="x"), "unknown field"),
    "a number as command": (lock(command=[1]), "expected `str`"),
    "text as tools": (lock(tools="x"), "expected `object`"),
    "a digest that is none": (lock(tools={"t": {"digest": "abc"}}), "matching regex"),
    "a tool without a digest": (lock(tools={"t": {}}), "missing required field `digest`"),
    "an unknown kind of package": (lock(package={"type": "gem", "name": "x"}), "invalid enum value"),
    "half of a surrogate pair as command": (lock(command="\ud800"), "surrogates not allowed"),
    "half of a surrogate pair as package": (lock(package={"type": "\ud800", "name": "x"}), "surrogates not allowed"),
    "half of a surrogate pair as key": (b'{"lockVersion": 3, "\\ud800": {}}', "surrogates not allowed"),
    "a long name": (json.dumps({"lockVersion": 3, "servers": {"s" * 129: {}}}).encode(), "length <= 128"),
    "a merge conflict": (b'{\n<<<<<<< HEAD\n"a": 1\n=======\n"a": 2\n>>>>>>> b\n}', "has a merge conflict."),
}


@pytest.mark.parametrize(("raw", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_lock_that_is_not_valid_gives_one_short_error(raw: bytes, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lock(raw, "mcphost.lock")
    assert caught.value.message.startswith("mcphost.lock")
    assert reason in caught.value.message
    assert caught.value.hint
    assert len(caught.value.message) < 400
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("version", "hint"), [(2, "Delete it and write it again: mcphost servers lock"), (4, "Use the version of mcphost")]
)
def test_a_lock_of_another_version_says_what_to_do(version: int, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_lock(json.dumps({"lockVersion": version, "servers": {}}).encode(), "mcphost.lock")
    assert hint in caught.value.hint


def test_a_damaged_lock_is_read_or_refused_and_nothing_else() -> None:
    rnd = random.Random(1)
    raw = encode_lock(document(description="Größe", inputSchema={"a": [1.5, None, True]}))
    pieces = (b"", b'"', b"{", b"[", b"]", b"\xff", b"1e9", b"null", b",")
    messages: list[str] = []
    for _ in range(3_000):
        damaged = bytearray(raw)
        for _ in range(rnd.randint(1, 4)):
            at = rnd.randrange(len(damaged))
            damaged[at : at + rnd.randint(0, 3)] = rnd.choice(pieces)
        try:
            encode_lock(parse_lock(bytes(damaged), "mcphost.lock"))
        except ConfigError as error:
            messages.append(error.message)
    assert max(map(len, messages)) < 400
    assert 2_000 < len(messages) < 3_000


@pytest.mark.parametrize("mark", [b"<<<<<<< HEAD", b"=======", b">>>>>>> branch", b"=======\r", b"<<<<<<<"])
def test_the_mark_of_a_merge_conflict_is_recognized_on_every_line(mark: bytes) -> None:
    lines = encode_lock(document(title="T", description="=======", inputSchema={"a": [1.5, [], None]})).splitlines()
    assert len(lines) > 20
    for at in range(len(lines) + 1):
        with pytest.raises(ConfigError, match="has a merge conflict"):
            parse_lock(b"\n".join([*lines[:at], mark, *lines[at:]]), "mcphost.lock")


@pytest.mark.parametrize("line", [b"\n<", b"\n<<<<<<<x", b"\n======", b"\r\n"])
def test_the_search_for_merge_conflicts_costs_little_beside_the_rest(line: bytes) -> None:
    """A search that looks at each line keeps the interpreter busy, and so stops the screen, also from a thread."""

    def measure(raw: bytes) -> float:
        seconds: list[float] = []
        for _ in range(5):
            began = time.thread_time()
            with pytest.raises(ConfigError):
                parse_lock(raw, "mcphost.lock")
            seconds.append(time.thread_time() - began)
        return min(seconds)

    size = 4_000_000
    assert measure(line * (size // len(line))) < 3 * measure(b" " * size)


def test_a_lock_over_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "mcphost.lock"
    path.write_bytes(b" " * (MAX_LOCK_BYTES + 1))
    with pytest.raises(ConfigError, match=r"is over 8000000 bytes\."):
        read_lock(path)


def test_a_lock_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mcphost.lock"
    write_lock(path, None, encode_lock(LockDocument()))
    assert path.stat().st_mode & 0o777 == 0o644
    _, before = read_lock(path)
    path.write_bytes(b"someone else's")
    with pytest.raises(ConfigError, match="was changed by another program"):
        write_lock(path, before, encode_lock(document()))
    assert path.read_bytes() == b"someone else's"


def test_a_definition_is_repeated_only_up_to_a_size_and_a_depth() -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(60):
        deep = {"properties": deep}
    assert shown_definition({"name": "t", "title": "T", "inputSchema": deep}) == {"title": "T"}
    shown = shown_definition({"description": "x" * 100_000, "inputSchema": {}})
    assert shown == {"description": "x" * 2_000 + "…"}
    assert shown_definition({"name": "t", "icons": [], "annotations": {}}) == {"annotations": {}}


def test_a_lock_that_would_be_too_large_keeps_every_digest() -> None:
    schema = {"properties": {str(number): {"type": "string"} for number in range(300)}}
    tools = {
        f"t{number}": LockedTool(digest=DIGEST, definition={"inputSchema": schema, "title": "T"})
        for number in range(400)
    }
    read = parse_lock(encode_lock(LockDocument(servers={"s": LockedServer(command=("run",), tools=tools)})), "lock")
    assert len(read.servers["s"].tools) == 400
    assert read.servers["s"].tools["t7"] == LockedTool(digest=DIGEST, definition={"title": "T"})
