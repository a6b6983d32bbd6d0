"""Tests for the YAML front matter of skills: common forms are read, dangerous ones refused, and wrong copies found."""

import json
import random
import time
from contextlib import suppress
from typing import Any

import pytest
import yaml

from mcphost.errors import MalformedMessage
from mcphost.protocol.frontmatter import MAX_DEPTH, find_difference, parse_frontmatter

WRITTEN = [
    "name: pdf-processing\ndescription: Extract, fill, and assemble PDF documents",
    "name: a\ndescription: >\n  Folded over\n  two lines.\n\n  And a paragraph.\nlicense: MIT",
    "name: a\ndescription: |-\n  kept\n    as it\n  is\n",
    "name: a\ndescription: >-\n  one\n    deeper\n  two\n\n\nlicense: x",
    "name: a\ndescription: |+\n  kept\n\n\nlicense: x",
    "name: a\ndescription: |2\n    two deeper\n  zero\nlicense: x",
    "name: \"quoted \\\"name\\\" \\u00e9 \\n end\"\ndescription: 'it''s single'",
    'description: "over\n  two lines\n\n  and a third"\nname: b',
    "description: over\n  two lines\n\n  and a third\nname: b",
    "metadata:\n  version: 1.0\n  count: 3\n  flag: true\n  nothing: null\n  empty:\n  tilde: ~\nname: a",
    "tags:\n  - one\n  - two: 2\n    three: 3\n  -\n    four: 4\n  - - five\n    - six\nname: a",
    "tags:\n- one\n- 'two'\nname: a",
    "allowed-tools: [Read, 'Write', \"Edit\", {a: 1, b: [2, 3]}, ]\nname: a",
    "allowed-tools: [\n  Read, # a comment\n  Write\n  ]\nname: a",
    "metadata: {author: some one, version: '1.0', nested: {x: , y: 2}}\nname: a",
    "# a comment\nname: a # behind\n\n  # indented\ndescription: has # inside? no",
    "name: a#b\nurl: https://example.com/x:y",
    "\"quoted key\": 1\n'single': 2\nspaced key: 3",
    "date: 2026-01-31\nhex: 0x1F\nexp: 1.5e+3\nneg: -4\ntext: 1.2.3",
    "a:\n  b:\n    c:\n      - d:\n          e: f",
    "name:\n  below\ndescription:\n  - a",
    "name: ''\ndescription: \"\"",
]


def with_frontmatter(text: str) -> str:
    return f"---\n{text}\n---\n\n# Body\n"


def as_json(value: Any) -> Any:
    """Return the JSON value that a server which parses the YAML with PyYAML would send."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json.dumps(key): as_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [as_json(member) for member in value]
    return value if isinstance(value, str | int | float | bool | None) else value.isoformat()


@pytest.mark.parametrize("text", WRITTEN, ids=range(len(WRITTEN)))
def test_common_front_matter_is_read_as_other_readers_read_it(text: str) -> None:
    said = as_json(yaml.safe_load(text))
    assert find_difference(parse_frontmatter(with_frontmatter(text)), said) == ""
    assert find_difference(parse_frontmatter(with_frontmatter(text).replace("\n", "\r\n")), said) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1.0", {"version": "1.0"}),
        ("flag: yes", {"flag": "yes"}),
        ("flag: yes", {"flag": True}),
        ("day: 2026-01-31", {"day": "2026-01-31T00:00:00.000Z"}),
        ("none: null", {"none": None}),
    ],
)
def test_versions_of_yaml_may_read_a_plain_scalar_differently(text: str, said: dict[str, Any]) -> None:
    assert find_difference(parse_frontmatter(with_frontmatter(text)), said) == ""


@pytest.mark.parametrize(
    ("text", "said", "where"),
    [
        ("name: a", {"name": "b"}, "name"),
        ("name: a", {"name": "a", "license": "MIT"}, "license"),
        ("name: a\nallowed-tools: Bash", {"name": "a"}, "allowed-tools"),
        ("m:\n  v: '1'", {"m": {"v": 1}}, "m.v"),
        ("m:\n  v: 1", {"m": {"v": 2}}, "m.v"),
        ("m:\n  v: true", {"m": {"v": False}}, "m.v"),
        ("m:\n  v: true", {"m": {"v": 1}}, "m.v"),
        ("t: [a, b]", {"t": ["a", "c"]}, "t[1]"),
        ("t: [a, b]", {"t": ["a"]}, "t"),
        ("t: a", {"t": ["a"]}, "t"),
        ("t: {}", {"t": None}, "t"),
        ("d: x", {"d": "x "}, "d"),
        ("day: 2026-01-31", {"day": "2026-01-31T00:00:00Z; rm"}, "day"),
    ],
)
def test_a_field_that_differs_is_named(text: str, said: dict[str, Any], where: str) -> None:
    assert find_difference(parse_frontmatter(with_frontmatter(text)), said) == where


HOSTILE = {
    "no fence": "name: a\n---",
    "no end": "---\nname: a\n" + "x: y\n" * 30_000,
    "alias": with_frontmatter("a: &x [1]\nb: *x"),
    "laughs": with_frontmatter("a: &a [l,l]\nb: &b [*a,*a]\nc: [*b,*b]"),
    "tag": with_frontmatter("a: !!python/object/apply:os.system ['true']"),
    "tag in a list": with_frontmatter("a: [!!x y]"),
    "merge": with_frontmatter("a: 1\n<<: {b: 2}"),
    "twice": with_frontmatter("name: a\nname: b"),
    "twice in braces": with_frontmatter("m: {a: 1, a: 2}"),
    "complex key": with_frontmatter("? a\n: b"),
    "deep flow": with_frontmatter("a: " + "[" * 5_000 + "]" * 5_000),
    "deep dashes": with_frontmatter("- " * 5_000 + "x"),
    "deep blocks": with_frontmatter("\n".join(" " * n + "k:" for n in range(200))),
    "many": with_frontmatter("a: [" + "1," * 5_000 + "]"),
    "tabs": with_frontmatter("a:\n\tb: 1"),
    "open quote": with_frontmatter('a: "never closed'),
    "open bracket": with_frontmatter("a: [1, 2"),
    "behind": with_frontmatter('a: "x" y'),
    "escape": with_frontmatter(r'a: "\q"'),
    "big escape": with_frontmatter(r'a: "\UFFFFFFFF"'),
    "no fields": with_frontmatter("just text"),
    "list": with_frontmatter("- a\n- b"),
    "empty": with_frontmatter(""),
    "too far in": with_frontmatter("a: 1\n   b: 2"),
    "nul": with_frontmatter("a\0"),
    "nothing": "",
}


@pytest.mark.parametrize("document", HOSTILE.values(), ids=HOSTILE.keys())
def test_dangerous_or_unreadable_input_is_refused(document: str) -> None:
    started_at = time.process_time()
    with pytest.raises(MalformedMessage):
        parse_frontmatter(document)
    assert time.process_time() - started_at < 2


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "{a: ",
        "- ",
        '"',
        "'",
        "a: [1]\n",
        "  \n",
        " #",
        "a: |\n",
        "k: >\n \n",
        ": ",
        "x\n ",
        "'': ",
        "\\",
        "[a,\n ",
    ],
)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    started_at = time.process_time()
    for begin in ("", "a: ", "a: [", 'a: "'):
        with suppress(MalformedMessage):
            parse_frontmatter(with_frontmatter(begin + piece * (64_000 // len(piece))))
    assert time.process_time() - started_at < 8


def test_random_texts_are_read_or_refused_and_never_disagree_with_another_reader() -> None:
    """If mcphost's parser and PyYAML both accept a text, they read the same values from it."""
    dice = random.Random(2640)
    pieces = [
        *"[]{},#-1~'\"",
        "a",
        "b c",
        ": ",
        ":\n",
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        " #",
        "|\n",
        ">\n",
        "true",
        "null",
    ]
    pieces += ["\\n", "é", "  ", "name: x\n"]
    both = 0
    for _ in range(6_000):
        text = "k: " + "".join(dice.choices(pieces, k=dice.randrange(1, 14)))
        try:
            ours = parse_frontmatter(with_frontmatter(text))
        except MalformedMessage:
            continue
        try:
            theirs = yaml.safe_load(text + "\n")
        except (yaml.YAMLError, ValueError):
            continue
        both += 1
        assert find_difference(ours, as_json(theirs)) == "", (text, ours, theirs)
    assert both > 300


def test_the_depth_that_is_allowed_is_read() -> None:
    levels = MAX_DEPTH - 2
    assert parse_frontmatter(with_frontmatter("a: " + "[" * levels + "]" * levels))


def test_front_matter_of_very_many_lines_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="more than 5,000 lines"):
        parse_frontmatter("---\na: b\n" + " c\n" * 6_000 + "---\n")
