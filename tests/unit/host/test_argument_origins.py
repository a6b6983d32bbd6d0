"""Tests that text copied from one server into the arguments of a call to another is found, in any encoding."""

import base64
import codecs
import gzip
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote

import anyio
import anyio.to_thread
import pytest

from mcphost.config.rules import FILES, OTHER_SERVERS
from mcphost.host.argument_origins import ArgumentOrigins
from mcphost.host.origins import argument_copies, copy_index
from mcphost.host.origins.argument_copies import MAX_CHARACTERS, find_origins
from mcphost.host.origins.copy_index import CopyBudget, CopyIndex, WindowIndex
from mcphost.host.origins.encodings import DecodeBudget, decoded_texts, unescape
from mcphost.host.origins.outside_texts import OutsideText, OutsideTexts, index_messages, index_newest
from mcphost.host.origins.text_folding import fold, keep_letters
from mcphost.llm.messages import Message, ResourcePart, TextPart, ToolReturnPart

SECRET = "The password is hunter2-correct-horse-battery"
PROSE = (Path(__file__).parents[3] / "docs" / "consent.md").read_text(encoding="utf-8")


def index_of(*texts: tuple[str, str, str]) -> OutsideTexts:
    index = OutsideTexts()
    for text in texts:
        index.add(OutsideText(*text))
    return index


def encode_base64(text: str, times: int) -> str:
    for _ in range(times):
        text = base64.b64encode(text.encode()).decode()
    return text


def mail_index(*more: tuple[str, str, str]) -> OutsideTexts:
    return index_of(("mail", "read_message", f"Hello,\n{SECRET}\nBye"), *more)


def search(arguments: dict[str, Any], server: str = "web") -> ArgumentOrigins:
    return find_origins(mail_index(), server, arguments)


def result(server: str, text: str, **more: Any) -> Message:
    return Message(role="tool", parts=(ToolReturnPart("1", f"{server}_t", text, server=server, tool="t", **more),))


def test_a_copy_is_reported_with_its_argument_source_length_and_place() -> None:
    (origin,) = search({"to": "bob", "body": f"FYI {SECRET}!"}).found
    assert (origin.argument, origin.server, origin.source) == ("body", "mail", "read_message")
    assert (origin.characters, origin.spans, origin.encoding) == (45, ((4, 49),), "")
    assert len(origin.digest) == 64


def test_every_verbatim_copy_of_16_characters_is_found() -> None:
    index, numbers = index_of(("mail", "read_message", PROSE)), random.Random(7)
    missed: list[str] = []
    for _ in range(1_500):
        start, length = numbers.randrange(len(PROSE) - 60), numbers.randrange(16, 60)
        piece = PROSE[start : start + length]
        found = find_origins(index, "web", {"body": f"~~{piece}~~"}).found
        covered = sum(end - start for start, end in found[0].spans) if found else 0
        if covered < (len(piece.strip()) - 7 if len(fold(piece)) >= 16 else 16):
            missed.append(piece)
    assert missed == []


def test_every_copy_of_16_characters_with_runs_of_spaces_or_marks_is_found() -> None:
    numbers = random.Random(5)
    signs = ("a", "B", "7", " ", "   ", "\t", "\n    ", "e\u0301", "\u200d", "\ufb01", "\U0001f468\u200d", "|")
    source = "".join(numbers.choices(signs, k=4_000))
    index = index_of(("mail", "read_message", source))
    missed: list[str] = []
    for _ in range(1_500):
        start = numbers.randrange(len(source) - 16)
        piece = source[start : start + 16]
        if not find_origins(index, "web", {"body": f"~{piece}~"}).found:
            missed.append(piece)
    assert missed == []


@pytest.mark.parametrize("copied", [" " * 16, " " * 15 + "}", "\n" * 8 + "\t" * 8])
def test_white_space_is_a_copy_like_any_other_text(copied: str) -> None:
    index = index_of(("mail", "read_message", f"if a:{copied}"))
    (origin,) = find_origins(index, "web", {"body": f"while b={copied}."}).found
    assert (origin.server, origin.characters) == ("mail", 16)
    assert find_origins(index, "web", {"body": f"while b={copied[1:]}."}).found == ()


def test_indentation_that_repeats_a_thousand_times_is_compared_completely() -> None:
    text = json.dumps([{"id": number % 10, "ok": [{"state": "open"}]} for number in range(1_000)], indent=8)
    index = index_of(*((server, "list", text) for server in ("mail", "crm")))
    assert index.windows.size < 2_000
    found = find_origins(index, "web", {"body": "[\n" + '                "id": 3,\n' * 1_000})
    assert (found.servers, found.unchecked) == ({"mail", "crm"}, set())


def test_a_text_with_more_windows_than_the_limit_counts_as_unchecked() -> None:
    index = index_of(("mail", "read_message", "abcd  1234  efgh  5678"))
    assert index.incomplete == set()
    index.windows = WindowIndex(16, limit=3)
    index.add(OutsideText("crm", "read", "abcd  1234  efgh  5679"))
    assert index.incomplete == {"crm"}


def test_shorter_coincidences_are_not_marked() -> None:
    assert search({"body": "The password of that is a word that opens it"}).found == ()


def test_the_results_of_the_called_server_are_not_foreign_but_known() -> None:
    assert search({"body": SECRET}, "mail").found == ()
    index = mail_index(("web", "fetch", f"<p>{SECRET}</p>"))
    (origin,) = find_origins(index, "web", {"body": SECRET}).found
    assert (origin.server, origin.is_own) == ("mail", True)


def test_a_text_of_several_servers_names_them_all() -> None:
    index = mail_index(("notes", "read", SECRET))
    assert find_origins(index, "web", {"body": SECRET}).servers == {"mail", "notes"}


@pytest.mark.parametrize("count", [99, 100, 500])
def test_many_copies_of_one_server_do_not_hide_another_server(count: int) -> None:
    numbers = random.Random(3)
    lines = ["".join(numbers.choices("abcdefghijklmnop", k=20)) for _ in range(count)]
    index = mail_index(("wiki", "search", "\n".join(lines)))
    found = find_origins(index, "web", {"tags": lines, "body": SECRET})
    assert found.servers == {"mail", "wiki"}
    assert len(found.found) == 100
    assert found.omitted == count - 99


def test_what_the_user_typed_is_foreign_only_if_a_source_has_it_too() -> None:
    index = mail_index()
    index.add_typed(f"please send: {SECRET}, and meet me at the station at noon")
    assert find_origins(index, "web", {"body": "meet me at the station at noon"}).found == ()
    (origin,) = find_origins(index, "web", {"body": SECRET}).found
    assert origin.is_typed


@pytest.mark.parametrize(
    ("written", "encoding"),
    [
        (SECRET.upper(), ""),
        (SECRET.replace(" ", "\n\t "), ""),
        (" ".join(SECRET), ""),
        (".".join(SECRET), ""),
        ("\u200b".join(SECRET), ""),
        (SECRET.replace("a", "\u0430").replace("o", "\u043e"), ""),
        (SECRET.translate({ord(sign): ord(sign) + 0xFEE0 for sign in SECRET if "!" <= sign <= "~"}), ""),
        (SECRET[::-1], "reversed"),
        (codecs.encode(SECRET, "rot13"), "ROT13"),
        (base64.b64encode(SECRET.encode()).decode(), "base64"),
        (base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="), "base64"),
        (base64.b64encode(base64.b64encode(SECRET.encode())).decode(), "base64, base64"),
        (encode_base64(SECRET, 4), ", ".join(["base64"] * 4)),
        (encode_base64(SECRET, 6), ", ".join(["base64"] * 6)),
        (base64.b64encode(gzip.compress(SECRET.encode(), mtime=0)).decode(), "base64, compressed"),
        (base64.b64encode(SECRET.encode("utf-16-le")).decode(), "base64"),
        (base64.b32encode(SECRET.encode()).decode(), "base32"),
        (SECRET.encode().hex(), "hexadecimal"),
        (SECRET.encode().hex(" "), "hexadecimal"),
        ("".join(f"%{byte:02X}" for byte in SECRET.encode()), "escaped"),
        ("".join(f"\\u{ord(sign):04x}" for sign in SECRET), "escaped"),
        ("".join(f"&#{ord(sign)};" for sign in SECRET), "escaped"),
        (" ".join(str(byte) for byte in SECRET.encode()), "character codes"),
        (f"https://x.example/?q={base64.urlsafe_b64encode(SECRET.encode()).decode()}", "base64"),
    ],
)
def test_a_rewritten_copy_is_found(written: str, encoding: str) -> None:
    (origin, *_) = search({"q": written}).found
    assert (origin.server, origin.encoding) == ("mail", encoding)
    assert origin.characters >= 38


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": SECRET[:12], "b": SECRET[12:24], "c": SECRET[24:]},
        {"parts": [SECRET[at : at + 5] for at in range(0, len(SECRET), 5)]},
        {"z": SECRET[30:], "y": SECRET[15:30], "x": SECRET[:15]},
        {SECRET[at : at + 15]: 1 for at in range(0, len(SECRET), 15)},
        {SECRET[at : at + 9]: SECRET[at + 9 : at + 18] for at in range(0, len(SECRET), 18)},
        {"a": "x" * 500 + SECRET[:12], "b": SECRET[12:24] + "x" * 500},
    ],
)
def test_a_copy_that_is_spread_over_several_arguments_is_found(arguments: dict[str, Any]) -> None:
    assert "mail" in search(arguments).servers


@pytest.mark.parametrize(
    "arguments",
    [
        {"deep": {"list": [{"text": SECRET}]}},
        {SECRET: True},
        {"codes": list(SECRET.encode())},
    ],
)
def test_a_copy_is_found_at_any_place_of_the_arguments(arguments: dict[str, Any]) -> None:
    assert search(arguments).servers == {"mail"}


def test_a_long_number_is_found() -> None:
    index = index_of(("bank", "cards", "Card 4111111111111111 ends soon"))
    assert find_origins(index, "web", {"n": 4111111111111111}).servers == {"bank"}
    assert find_origins(index, "web", {"a": 41111111, "b": 11111111}).servers == {"bank"}
    assert find_origins(index, "web", {"a": "card 4111", "b": True, "c": 111111111111}).servers == {"bank"}


def test_names_that_the_tool_expects_are_not_joined_with_values() -> None:
    index = index_of(("git", "get", '{"owner": "acme", "repository": "widgets", "ref": "main"}'))
    arguments = {"owner": "acme", "repository": "widgets"}
    assert find_origins(index, "web", arguments).servers == {"git"}
    assert find_origins(index, "web", arguments, expected_names=set(arguments)).servers == set()


def test_a_cipher_is_found_next_to_text_of_the_called_server() -> None:
    index = mail_index(("web", "get", "Welcome to the pastebin, post text here"))
    for written in (SECRET[::-1], codecs.encode(SECRET, "rot13")):
        found = find_origins(index, "web", {"q": f"Welcome to the pastebin. {written}"})
        assert found.servers == {"mail"}


def test_a_text_that_is_the_same_in_both_directions_is_one_copy() -> None:
    index = index_of(("mail", "read", "a line: 0000000000000000000000"))
    (origin,) = find_origins(index, "web", {"x": "0" * 20}).found
    assert (origin.encoding, origin.characters) == ("", 20)


def test_text_that_a_server_wrote_in_an_encoding_is_found_when_the_call_has_it_decoded() -> None:
    encoded = base64.urlsafe_b64encode(SECRET.encode()).decode()
    index = index_of(("mail", "get", f'{{"body":"{encoded}","note":"line one of it\\nand line two"}}'))
    assert find_origins(index, "web", {"body": SECRET}).servers == {"mail"}
    assert find_origins(index, "web", {"body": "line one of it\nand line two"}).servers == {"mail"}


def test_results_attachments_and_files_of_messages_are_sources_and_declined_calls_are_not() -> None:
    index = OutsideTexts()
    attached = ResourcePart("notes", "note://1", "the minutes of the meeting in May")
    file = ResourcePart("", "file:///home/me/plan.txt", "the plan that nobody may see yet")
    index_messages(
        index,
        [
            result("mail", SECRET),
            result("fs", "a reason that the user gave for it", outcome="declined"),
            Message(role="user", parts=(attached, file, TextPart("what does it say about the budget?"))),
        ],
    )
    body = f"{SECRET} {attached.text} {file.text} a reason that the user gave for it, about the budget?"
    found = find_origins(index, "web", {"body": body})
    assert {(origin.server, origin.source) for origin in found.found} == {
        ("mail", "t"), ("notes", "note://1"), (FILES, "file:///home/me/plan.txt"),
    }  # fmt: skip


def test_of_a_conversation_over_the_limit_the_newest_is_indexed_and_the_rest_is_unchecked() -> None:
    numbers = random.Random(1)
    texts = ["".join(numbers.choices("abcdefghijklmnopqrstuvwxyz ", k=1_000)) for _ in range(20)]
    messages = tuple(result("old" if number < 10 else "new", text) for number, text in enumerate(texts))
    index = index_newest(messages, limit=5_000)
    assert find_origins(index, "web", {"x": texts[-1]}).servers == {"new"}
    assert find_origins(index, "web", {"x": texts[0]}).unchecked >= {"old"}


def test_arguments_that_are_too_large_or_repeat_too_much_are_said_to_be_unchecked() -> None:
    assert OTHER_SERVERS in search({"x": "word " * (MAX_CHARACTERS // 4)}).unchecked
    index = index_of(("mail", "read", ("abcdefghijk" + "z") * 20_000 + "q"))
    budget = CopyBudget(1_000)
    plain = CopyIndex(10, 7)
    plain.add("ab" * 5_000, "mail")
    list(plain.find("abababababab" * 1_000, budget))
    assert budget.is_used_up
    assert not find_origins(index, "web", {"x": "nothing of it"}).unchecked


def test_a_copied_table_is_compared_completely() -> None:
    rows = [{"name": f"user{row}", "mail": f"user{row}@example.com", "id": row * 37} for row in range(200)]
    log = "\n".join(f"2026-01-01T00:{row // 60:02}:{row % 60:02} INFO request {row * 79} done" for row in range(200))
    index = index_of(("db", "query", json.dumps(rows)), ("logs", "read", log))
    found = find_origins(index, "web", {"rows": rows, "log": log}, expected_names={"rows", "log"})
    assert (found.servers, found.unchecked) == ({"db", "logs"}, set())


def test_an_index_finds_the_longest_copy_of_each_group() -> None:
    index = CopyIndex(10, 7)
    index.add("xx the quick brown fox xx", "a")
    index.add("yy the quick brown fox jumps over yy", "b")
    copies = list(index.find("-- the quick brown fox jumps over --", CopyBudget(10_000)))
    assert {(copy.text, copy.end - copy.start) for copy in copies} == {(0, 21), (1, 32)}


@pytest.mark.parametrize("zeros", ["", "0" * 5_000])
def test_a_character_number_of_any_length_neither_fails_nor_hides_a_copy(zeros: str) -> None:
    escaped = "".join(f"&#{zeros}{ord(char)};" for char in SECRET)
    endless = f"&#{'9' * 5_000};"
    for source, body in ((f"{endless} {SECRET}", f"{endless} {escaped}"), (f"{endless} {escaped}", SECRET)):
        found = find_origins(index_of(("mail", "read_message", source)), "web", {"body": body}).found
        assert [origin.server for origin in found] == ["mail"]
    assert not search({"body": f"&#{'1' * 5_000}; nothing of any other server"}).found


def test_a_copy_behind_many_encoded_parts_is_found() -> None:
    numbers = random.Random(1)
    junk = "! ".join("".join(numbers.choices("abcdefABCDEF0123456789", k=22)) for _ in range(1_500))
    encoded = f"{junk}! {encode_base64(SECRET, 1)}"
    assert [origin.encoding for origin in search({"q": encoded}).found] == ["base64"]
    index = index_of(("mail", "read", encoded))
    assert find_origins(index, "web", {"q": SECRET}).servers == {"mail"}


def test_text_in_more_layers_than_are_decoded_counts_as_unchecked() -> None:
    assert search({"q": encode_base64(SECRET, 7)}).unchecked == {OTHER_SERVERS}
    assert search({"q": encode_base64("nothing of any other server", 5)}).unchecked == set()
    assert search({"q": f"{PROSE} {random.Random(1).randbytes(5_000).hex()}"}).unchecked == set()


def test_a_source_that_was_decoded_only_in_part_counts_as_unchecked() -> None:
    index = index_of(("mail", "read", encode_base64("a" * 1_100_000, 1)))
    assert find_origins(index, "web", {"q": "nothing of it"}).unchecked == {"mail"}


@pytest.mark.parametrize(
    ("encoding", "encoded"),
    [
        ("base64", encode_base64(SECRET, 1).replace("c", "c   ")),
        ("base32", base64.b32encode(SECRET.encode()).decode()),
        ("hexadecimal", SECRET.encode().hex(" ").replace(" ", ", 0x")),
        ("character codes", ",  ".join(str(code) for code in SECRET.encode())),
    ],
)
def test_encoded_text_is_found_at_any_place_of_a_long_text(encoding: str, encoded: str) -> None:
    for place in range(3_600, 4_300, 3):
        text = "!" * place + encoded + "!" * 5_000
        found = [part for part in decoded_texts(text, DecodeBudget()) if part.text == SECRET]
        assert [(part.encoding, part.start, part.end) for part in found] == [(encoding, place, place + len(encoded))]


@pytest.mark.parametrize("part", ["41 ", "A"])
def test_a_long_encoded_text_is_decoded_in_little_memory(part: str) -> None:
    text = part * (200_000 // len(part))
    tracemalloc.start()
    try:
        for _ in decoded_texts(text, DecodeBudget()):
            pass
        assert tracemalloc.get_traced_memory()[1] < 25 * len(text)
    finally:
        tracemalloc.stop()


def test_a_run_of_spaces_is_one_space_at_any_place_of_a_long_text() -> None:
    for length in range(32 * 1024 - 3, 32 * 1024 + 3):
        folded = fold("\u00c9" * length + " \u3000 \u200b x\ufb01")
        assert (folded, keep_letters(folded)) == ("e" * length + " xfi", "e" * length + "xfi")


def test_short_numbers_and_names_beyond_a_limit_count_as_unchecked() -> None:
    assert search({"a": list(range(100, 15_100))}).unchecked == set()
    assert search({"a": list(range(100, 25_100))}).unchecked == {OTHER_SERVERS}
    assert search({f"k{number}": 1 for number in range(25_000)}).unchecked == {OTHER_SERVERS}
    assert search({"a": [1] * 90_000}).unchecked == {OTHER_SERVERS}
    assert search({"a": [[]] * 90_000}).unchecked == {OTHER_SERVERS}
    assert search({"a": [1] * 30_000}).unchecked == set()


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of `argument_copies` are run in *work*, counting each turn of a loop."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace if frame.f_code.co_filename == argument_copies.__file__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def halves(parts: list[str]) -> dict[str, Any]:
    return {f"{number}{at}": part[at : at + 15] for number, part in enumerate(parts) for at in (0, 15)}


def whole_and_spelled_out(parts: list[str]) -> dict[str, Any]:
    return {"text": "@@".join(f"{part}~~{'-'.join(part)}" for part in parts)}


@pytest.mark.parametrize(("arrange", "server"), [(halves, "web"), (whole_and_spelled_out, "mail")])
def test_twice_as_many_copies_take_twice_as_long(
    arrange: Callable[[list[str]], dict[str, Any]], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = random.Random(1)
    parts = ["".join(numbers.choices("abcdefghijklmnopqrstuvwxyz", k=30)) for _ in range(800)]
    index = index_of(("mail", "read", "!".join(parts)), ("web", "get", "!".join(parts[::2])))
    monkeypatch.setattr(argument_copies, "MAX_COMPARISONS", 10_000_000)
    few, many = (lines_run(lambda: find_origins(index, server, arrange(parts[:count]))) for count in (400, 800))  # noqa: B023
    assert many < 2.5 * few


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode())).decode()


def test_a_copy_behind_what_is_decoded_counts_as_unchecked() -> None:
    assert [origin.encoding for origin in search({"x": packed(f"{'a' * 1_000}{SECRET}")}).found] == [
        "base64, compressed"
    ]
    hidden = search({"x": packed(f"{'a' * 1_000_000}{SECRET}")})
    assert (hidden.found, hidden.unchecked) == ((), {OTHER_SERVERS})


def test_many_small_values_that_decompress_to_much_cost_no_more_than_one() -> None:
    began = time.monotonic()
    found = search({"items": [packed("a" * 1_000_000)] * 100})
    assert found.unchecked == {OTHER_SERVERS}
    assert time.monotonic() - began < 60  # minutes, if each were decoded


def test_letters_that_stand_for_many_are_compared_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(argument_copies, "MAX_FOLDED", 300)
    assert search({"x": "\ufdfa" * 10}).unchecked == frozenset()
    assert search({"x": "\ufdfa" * 30}).unchecked == {OTHER_SERVERS}


@pytest.mark.parametrize("offset", range(12))
def test_url_escapes_of_a_long_text_are_decoded_wherever_they_are(offset: int) -> None:
    text = "a" * (16 * 1024 - offset) + "%C3%A9%zz%%F0%9F%98%80\u65e5%E6%97%A5%ff%ED%A0%80 %4"
    assert unescape(text) == unquote(text)
    assert unescape(text[-30:] * 3_000) == unquote(text[-30:] * 3_000)


async def longest_stall(work: Callable[..., Any], *args: Any) -> float:
    """Run *work* in a thread, and return the longest time between two turns of the event loop, in seconds of CPU."""
    done = anyio.Event()
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while not done.is_set():
            before = time.process_time()  # time of the process, which other programs do not lengthen
            await anyio.sleep(0.001)
            longest = max(longest, time.process_time() - before)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        await anyio.to_thread.run_sync(work, *args)
        done.set()
    return longest


@pytest.mark.anyio
async def test_a_search_in_a_long_text_of_any_script_never_stops_the_event_loop() -> None:
    assert await longest_stall(find_origins, mail_index(), "web", {"body": "\uac01\ub098" * 450_000}) < 0.1


@pytest.mark.anyio
@pytest.mark.parametrize("piece", ["%", "\xe9%41", "%ff", "%C3%A9"])
async def test_decoding_a_megabyte_of_url_escapes_never_stops_the_event_loop(piece: str) -> None:
    assert await longest_stall(unescape, piece * (1_000_000 // len(piece))) < 0.05


@pytest.mark.anyio
async def test_decoding_a_megabyte_of_broken_text_never_stops_the_event_loop() -> None:
    packed_text = base64.b64encode(b"A\0" + b"\0\xd8" * 374_000).decode()

    def decode() -> None:
        assert list(decoded_texts(packed_text, DecodeBudget())) == []

    assert await longest_stall(decode) < 0.05


def test_the_windows_in_a_run_of_one_character_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index, hashed = index_of(("mail", "read_message", f"if a:{' ' * 40}x")), 0

    def count(text: str) -> int:
        nonlocal hashed
        hashed += 1
        return hash(text)

    monkeypatch.setattr(copy_index, "hash", count, raising=False)
    (origin,) = find_origins(index, "web", {"body": f"b{' ' * 50_000}y"}).found
    assert origin.spans == ((1, 50_001),)
    assert 0 < hashed < 500
