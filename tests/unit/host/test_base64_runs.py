"""Tests that long base64 is found wherever it is, in texts and in JSON that is not decoded."""

import json
import random
import re
from base64 import b64encode
from hashlib import sha512

import pytest

from mcphost.host.base64_runs import MIN_LINES, replace_base64, replace_base64_in_json, replace_base64_pieces
from mcphost.host.structured_content import ContentIndex

RUN = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{1024,}={0,2}")
LETTERS = "ABCabc019+/_-"
ESCAPED = ("\n", "\r\n", "\t", "\\", '"', "é", "\\n", "\u2028", "/", "=", " ", ".")


def note(run: str) -> str:
    return f"[{len(run)}]"


def random_text(rnd: random.Random) -> str:
    """Return a text of runs whose lengths are near the limit, between characters that are escaped in JSON or not."""
    pieces = [rnd.choice(ESCAPED)]
    for _ in range(rnd.randint(1, 6)):
        length = rnd.choice((1, 60, 511, 512, 513, 1_023, 1_024, 1_025, 1_535, 1_536, 2_047, 2_048, 3_000))
        pieces.append("".join(rnd.choices(LETTERS, k=length)) + "=" * rnd.randint(0, 3))
        pieces += rnd.choices(ESCAPED, k=rnd.randint(1, 3))
    return "".join(pieces[rnd.randint(0, 1) :])


@pytest.mark.parametrize("seed", range(5))
def test_each_run_of_at_least_1024_letters_is_found_and_no_other(seed: int) -> None:
    rnd = random.Random(seed)
    for _ in range(100):
        text = random_text(rnd)
        expected = RUN.sub(lambda match: note(match[0]), text)
        assert replace_base64(text, note) == expected
        for ensure_ascii in (True, False):
            body = json.dumps({"a": text, "b": [text]}, ensure_ascii=ensure_ascii).encode()
            assert json.loads(replace_base64_in_json(body, note)) == {"a": expected, "b": [expected]}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("width", [60, 64, 72, 76])
@pytest.mark.parametrize("last", ["", "Ab3d", "Ab3dAb==", "Ab3dAb3="])
def test_lines_of_a_usual_width_are_one_run(end: str, width: int, last: str) -> None:
    for count in (MIN_LINES - 1, MIN_LINES, MIN_LINES + 1, 2_500):
        for before in ("", "Attachment: ", "a\n\n", "x" * 1_000 + "\n", '"', "é\n"):
            lines = ("Ab3d" * (width // 4) + end) * count + (last + end if last else "")
            text = f"{before}{lines}The end."
            whole = len(lines.replace(end, ""))
            rest = end[-1] if not last else end
            expected = f"{before}[{whole}]{rest}The end." if count >= MIN_LINES else text
            assert replace_base64(text, note) == expected
            body = json.dumps([text]).encode()
            (shown,) = json.loads(replace_base64_in_json(body, note))
            assert shown == expected


@pytest.mark.parametrize("width", [40, 59, 61, 75, 77, 80, 100, 200])
def test_lines_of_another_width_stay(width: int) -> None:
    text = ("A" * width + "\n") * 500
    assert replace_base64(text, note) == text
    assert replace_base64_in_json(json.dumps(text).encode(), note) == json.dumps(text).encode()


def test_a_run_that_is_not_shortened_stays_as_it_was() -> None:
    text = "abc " + "0123456789abcdef" * 500 + "\n" + ("0123456789abcdef" * 4 + "\n") * 100
    assert replace_base64(text, str) == text
    assert json.loads(replace_base64_in_json(json.dumps(text).encode(), str)) == text


@pytest.mark.parametrize(("width", "count"), [(1000, 2), (200, 6), (76, 65), (60, 100)])
@pytest.mark.parametrize("rest", ["", "QUJDREVG", "QUI="])
def test_pieces_of_base64_in_a_list_are_replaced_together(width: int, count: int, rest: str) -> None:
    data = b64encode(bytes(number * 7 % 251 for number in range(width * count * 3 // 4))).decode()
    pieces = [data[at : at + width] for at in range(0, len(data), width)] + [rest] * bool(rest)
    assert list(replace_base64_pieces(["before", *pieces, 7, None], note)) == ["before", note(data + rest), 7, None]


@pytest.mark.parametrize(
    "items",
    [
        [sha512(bytes([number])).hexdigest() for number in range(200)],
        [b64encode(sha512(bytes([number])).digest()).decode() for number in range(200)],
        [b64encode(sha512(bytes([number])).digest() * 2).decode()[:96] for number in range(200)],
        ["word", "four", "tea4", "milk"] * 400,
        ["x" * (4 * number) for number in range(1, 100)],
        [],
    ],
)
def test_hashes_and_words_in_a_list_are_no_pieces(items: list[str]) -> None:
    assert ContentIndex([]).remove_repeats({"items": items}) == {"items": items}
