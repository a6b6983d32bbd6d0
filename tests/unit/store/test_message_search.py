"""Tests for full-text search over stored conversations, and for the user's earlier messages."""

import random
import sqlite3
import string
import time
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest

from mcphost import unicode_forms
from mcphost.llm.messages import (
    CopiedText,
    ImagePart,
    Message,
    Part,
    PromptSource,
    ResourcePart,
    Role,
    TextPart,
    ToolReturnPart,
    ToolUsePart,
)
from mcphost.serialization import encode
from mcphost.store import message_search
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.message_search import STILL_INDEXING, SearchStore, parse_query
from mcphost.store.migrations import MIGRATIONS

pytestmark = pytest.mark.anyio
JANUARY = 1_767_225_600.0  # 2026-01-01 in UTC
DAY = 86_400
NOTHING: set[str] = set()


async def store_texts(database: Database, *texts: str, role: Role = "user", at: float = JANUARY) -> None:
    """Store each text as a separate conversation, which has the position of the text as its title."""
    for number, text in enumerate(texts):
        await store_parts(database, str(number), TextPart(text), role=role, at=at + number)


async def store_parts(
    database: Database, conversation_id: str, *parts: Part, role: Role = "user", at: float = JANUARY, title: str = "-"
) -> int:
    message = Message(role=role, parts=parts, at=at)
    return await ConversationStore(database).append(conversation_id, message, title=title, model="m")


async def find_ids(database: Database, text: str, *, is_typing: bool = False) -> set[str]:
    result = await SearchStore(database).search(text, is_typing=is_typing)
    return {found.id for found in result.conversations}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("deploy", {"0", "1"}),
        ("DEPLOY cluster", {"0"}),
        ('"the cluster"', {"0"}),
        ('"cluster the"', NOTHING),
        ("deploy -cluster", {"1"}),
        ('deploy -"the cluster"', {"1"}),
        ("clust*", {"0"}),
        ("clust", NOTHING),
        ("cafe", {"2"}),
        ("数据库", {"3"}),
        ("数据", {"3"}),
        ("据", {"3"}),
        ("库", {"3"}),
        ("据数", NOTHING),
        ("数库", NOTHING),
        ("データ", {"4"}),
        ("タ", {"4"}),
        ("검색", {"5"}),
        ("AI模型", {"6"}),
        ("模型 deploy", NOTHING),
        ("ＡＩ", {"6"}),
        ("read_file", {"7"}),
        ("-deploy -cafe", {"3", "4", "5", "6", "7"}),
    ],
)
async def test_words_phrases_and_operators_find_the_right_conversations(
    tmp_path: Path, query: str, expected: set[str]
) -> None:
    database = Database(tmp_path / "s.db")
    await store_texts(
        database, "Deploy the cluster", "deploy a page", "the café", "修复数据库连接", "データの検索", "전체 검색 기능",
        "用AI模型", "call read_file now",
    )  # fmt: skip
    assert await find_ids(database, query) == expected


async def test_the_word_that_is_being_typed_may_be_incomplete(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_texts(database, "kubernetes")
    assert await find_ids(database, "kube", is_typing=True) == {"0"}
    assert await find_ids(database, "kube ", is_typing=True) == set()


async def test_filters_find_servers_tools_roles_and_times(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_parts(database, "a", ToolUsePart("1", "fs__read_file", {"path": "/etc/hosts"}), role="assistant")
    await store_parts(
        database, "b", ToolReturnPart("1", "fs__read_file", "127.0.0.1", server="fs", tool="read_file"), role="tool",
        at=JANUARY + 30 * DAY,
    )  # fmt: skip
    await store_parts(database, "c", ResourcePart("web", "file:///notes/plan.txt", "x"), TextPart("read"))
    for query, expected in {
        "tool:read_file": {"b"},
        "tool:fs__read_file": {"a", "b"},
        "tool:read": NOTHING,
        "tool:fs*": {"a", "b"},
        "server:FS": {"b"},
        "server:web read": {"c"},
        "role:user": {"c"},
        "role:assistant hosts": {"a"},
        "plan.txt": {"c"},
        "after:2026-01-15": {"b"},
        "before:2026-01-15 -plan": {"a"},
        "after:2027": NOTHING,
    }.items():
        assert await find_ids(database, query) == expected, query


async def test_a_title_is_found_and_its_excerpt_marks_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_parts(database, "a", TextPart("hello"), title="Quarterly report")
    (found,) = (await SearchStore(database).search("report")).conversations
    assert (found.hits[0].number, found.hits[0].role) == (0, "title")
    assert [piece for piece in found.hits[0].excerpt if piece.is_match] == [("report", True)]


async def test_an_excerpt_names_the_server_and_the_tool_of_a_call_as_users_see_them(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_parts(database, "a", ToolUsePart("1", "fs__read_file", {"path": "/etc/hosts"}), role="assistant")
    (found,) = (await SearchStore(database).search("tool:fs__read_file")).conversations
    assert "".join(piece.text for piece in found.hits[0].excerpt).startswith("fs · read_file {")


async def test_an_excerpt_shows_the_match_in_the_middle_of_a_long_message(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_texts(database, f"{'before ' * 500}Zürich {'after ' * 500}")
    (found,) = (await SearchStore(database).search("zurich")).conversations
    pieces = found.hits[0].excerpt
    assert [piece.text for piece in pieces if piece.is_match] == ["Zürich"]
    assert len("".join(piece.text for piece in pieces)) < 200


async def test_newer_and_more_relevant_messages_come_first(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    now = time.time()
    long = " ".join(f"word{number}" for number in range(400))
    await store_parts(database, "old", TextPart("apple pie"), at=now - 2_000 * DAY)
    await store_parts(database, "new", TextPart("apple pie"), at=now - DAY)
    await store_parts(database, "weak", TextPart(f"{long} apple {long}"), at=now)
    result = await SearchStore(database).search("apple")
    assert [found.id for found in result.conversations] == ["new", "old", "weak"]


@pytest.mark.parametrize(("limit", "expected"), [(3, ["short", "long"]), (2, ["long", "short"])])
async def test_matches_of_a_common_word_and_another_come_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, expected: list[str]
) -> None:
    monkeypatch.setattr(message_search, "COMMON_WORD_MESSAGES", limit)
    database = Database(tmp_path / "s.db")
    now = time.time()
    filler = " ".join(f"word{number}" for number in range(400))
    await store_parts(database, "short", TextPart("the apple"), at=now - DAY)
    await store_parts(database, "long", TextPart(f"{filler} the apple {filler}"), at=now)
    await store_parts(database, "other", TextPart("the pear"), at=now)
    result = await SearchStore(database).search("the apple")
    assert [found.id for found in result.conversations] == expected


async def test_no_search_raises_whatever_it_contains(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_texts(database, "something NEAR AND OR NOT")
    source = random.Random(14)
    alphabet = string.printable + '""""****::::----^^(){}' + "数据库ａ\u0301\u200d\ud800\x00"
    words = [
        "AND",
        "OR",
        "NOT",
        "NEAR(",
        "text:",
        "labels:",
        "tool:",
        "server:*",
        "before:x",
        "after:9999999d",
        "-",
        '"',
    ]
    for _ in range(400):
        parts = [source.choice((source.choice(words), "".join(source.choices(alphabet, k=5)))) for _ in range(6)]
        await SearchStore(database).search(source.choice(("", " ")).join(parts), is_typing=source.random() < 0.5)
    assert await find_ids(database, "NEAR AND") == {"0"}


async def test_a_wrong_date_is_reported_and_the_rest_is_searched(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_texts(database, "pear")
    result = await SearchStore(database).search("pear before:soon")
    assert [found.id for found in result.conversations] == ["0"]
    assert "before:soon is not a date" in result.notes[0]
    (note,) = parse_query("role:bogus Role:User role:a*", now=JANUARY).notes
    assert note == "role:bogus is not one of: user, assistant, tool, title."


async def test_conversations_of_an_earlier_version_are_indexed_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    before = tuple(step for step in MIGRATIONS if step[0] < "013")
    old = Database(path, migrations=before)
    body = encode(Message(role="user", parts=(TextPart("ancient words"),), at=JANUARY))

    def fill(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO conversations VALUES ('old', 'Old times', 'm', 1, 2, NULL)")
        db.executemany(
            "INSERT INTO messages (conversation, seq, body) VALUES ('old', ?, ?)", ((n, body) for n in range(1, 1_001))
        )

    await old.run(fill)
    await old.close()
    database = Database(path)
    await store_parts(database, "old", TextPart("a new message"), at=JANUARY + DAY)
    search = SearchStore(database)
    assert STILL_INDEXING in (await search.search("message")).notes
    assert await find_ids(database, "message") == {"old"}
    assert await find_ids(database, "ancient") == set()
    pieces = 0
    while await search.index_piece():
        pieces += 1
        if pieces == 1:
            await database.close()  # an interrupted run goes on where it was
    assert pieces == 3
    (found,) = (await search.search("ancient")).conversations
    assert found.count == 401  # more are not ranked
    assert await find_ids(database, "times") == {"old"}
    assert (await search.search("message")).notes == ()


async def test_a_single_character_is_one_term_of_the_index_and_no_prefix_of_many(tmp_path: Path) -> None:
    assert parse_query("数", now=JANUARY).match == '(labels : "数")'
    assert parse_query("数 -据", now=JANUARY).match == '((labels : "数")) NOT (labels : "据")'
    database = Database(tmp_path / "s.db")
    await store_texts(database, "数据库", "天气", "any tool")
    await store_parts(database, "3", TextPart("untitled"), title="库")
    await database.run(lambda db: db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(search_index, 'col')"))
    query = "SELECT doc FROM terms WHERE term = ? AND col = 'labels'"
    counts = await database.run(lambda db: [db.execute(query, (one,)).fetchall() for one in "数库气a"])
    assert counts == [[(1,)], [(2,)], [(1,)], []]
    assert await find_ids(database, "据") == {"0"}
    assert await find_ids(database, "库") == {"0", "3"}


async def test_an_index_without_single_characters_is_filled_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    old = Database(path, migrations=tuple(step for step in MIGRATIONS if step[0] < "016"))
    await store_texts(old, "数据库")
    await old.close()
    database = Database(path)
    assert STILL_INDEXING in (await SearchStore(database).search("数")).notes
    while await SearchStore(database).index_piece():
        pass
    assert await find_ids(database, "数") == await find_ids(database, "数据") == {"0"}
    assert (await SearchStore(database).search("数")).notes == ()


def test_the_case_of_each_character_is_looked_up_once_however_long_the_text_is(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def normalize(form: str, text: str) -> str:
        looked_up.append(text)
        return unicodedata.normalize(form, text)

    monkeypatch.setattr(unicode_forms, "normalize", normalize)
    text = "ŽŠŽ" * 5_000 + "needle"
    pieces = message_search.make_excerpt([text], message_search.mark_pattern(["needle"]))
    assert [piece.text for piece in pieces if piece.is_match] == ["needle"]
    assert len(looked_up) <= 2


async def test_a_fork_is_indexed_in_the_background(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    number = await store_parts(database, "a", TextPart("copied"))
    await ConversationStore(database).fork("a", [number], new_id="b", at=JANUARY)
    assert await SearchStore(database).count_pending() == 1
    while await SearchStore(database).index_piece():
        pass
    assert await find_ids(database, "copied") == {"a", "b"}


async def test_a_damaged_index_loses_no_message_and_is_built_anew(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store_texts(database, "kept before")
    await database.close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("UPDATE search_index_data SET block = x'00ff00ff' WHERE id > 10")
    first = await SearchStore(database).search("kept")
    assert "damaged" in first.notes[0]
    await database.close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("UPDATE search_index_data SET block = x'00ff00ff' WHERE id > 10")
    await store_parts(database, "1", TextPart("kept after"))
    while await SearchStore(database).index_piece():
        pass
    assert await find_ids(database, "kept") == {"0", "1"}
    assert [message.text for message in await ConversationStore(database).load("1") or ()] == ["kept after"]


async def test_a_store_that_cannot_be_written_is_searched_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    database = Database(path / "s.db")
    await store_texts(database, "only in memory")
    assert await find_ids(database, "memory") == {"0"}


async def store(database: Database, conversation: str, *texts: str, role: Role = "user", at: float = 1e9) -> None:
    """Store messages in a conversation, one second apart."""
    for number, text in enumerate(texts):
        message = Message(role=role, parts=(TextPart(text),), at=at + number)
        await ConversationStore(database).append(conversation, message, title=f"talk {conversation}", model="m")


async def find(database: Database, text: str = "") -> list[str]:
    return [one.text for one in (await SearchStore(database).find_prompts(text)).prompts]


async def test_messages_of_all_conversations_come_newest_first_and_once(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", "deploy it", "and test", at=1e9)
    await store(database, "b", "deploy it ", "修复数据库", at=1e9 + 60)
    found = await SearchStore(database).find_prompts("")
    assert [one.text for one in found.prompts] == ["修复数据库", "deploy it ", "and test"]
    assert [one.conversation for one in found.prompts] == ["b", "b", "a"]
    assert (found.prompts[0].title, found.prompts[0].at, found.has_more) == ("talk b", 1e9 + 61, False)


async def test_equal_messages_mark_the_same_words_as_copied_whatever_white_space_they_begin_with(
    tmp_path: Path,
) -> None:
    database = Database(tmp_path / "s.db")
    for number, text in enumerate(("drop it now  ", "  drop it now", " \n drop it now", "drop it now")):
        start = text.index("it")
        spans = ((start, start + 6), (0, len(text) - len(text.lstrip())))
        copied = CopiedText(f"s{number}", "notes", spans[: 1 + (start == 7)])
        message = Message(role="user", parts=(TextPart(text, (copied, CopiedText("all", "notes"))),), at=1e9 + number)
        await ConversationStore(database).append("a", message, title="t", model="m")
    (prompt,) = (await SearchStore(database).find_prompts("")).prompts
    marked = {one.server: {prompt.text[first:end] for first, end in one.spans} for one in prompt.copies}
    assert prompt.text == "drop it now"
    assert marked == {"all": set(), "s0": {"it now"}, "s1": {"it now"}, "s2": {"it now"}, "s3": {"it now"}}


async def test_what_the_user_did_not_write_is_left_out(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", "an answer", role="assistant")
    await store(database, "a", "a question")
    inserted = PromptSource("files", "summarize")
    late = ResourcePart("files", "call:1", "result", use_id="u1")
    for message in (
        Message(role="user", parts=(TextPart("of a server"),), prompt=inserted),
        Message(role="user", parts=(late, TextPart("late"))),
        Message(role="user", parts=(ImagePart("image/png", "eA==", "shot.png"),)),
    ):
        await ConversationStore(database).append("a", message, title="t", model="m")
    assert await find(database) == ["a question"]


async def test_a_search_takes_incomplete_words_phrases_and_every_script(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", "deploy the cluster", "deploy a page", "修复数据库连接")
    assert await find(database, "clus") == ["deploy the cluster"]
    assert await find(database, '"a page"') == ["deploy a page"]
    assert await find(database, "deploy -cluster") == ["deploy a page"]
    assert await find(database, "数据") == ["修复数据库连接"]
    assert await find(database, "role:assistant deploy") == []


async def test_the_number_of_messages_that_are_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", *(f"message {number}" for number in range(20)))
    monkeypatch.setattr(message_search, "MAX_READ", 5)
    found = await SearchStore(database).find_prompts("")
    assert [one.text for one in found.prompts] == [f"message {number}" for number in range(19, 14, -1)]
    assert found.has_more
    assert await find(database, "message 3") == ["message 3"]


async def test_the_size_of_what_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", *(f"{number} {'x' * 1_000}" for number in range(20)))
    monkeypatch.setattr(message_search, "MAX_READ_BYTES", 3_000)
    found = await SearchStore(database).find_prompts("")
    assert len(found.prompts) == 3
    assert found.has_more


async def test_a_message_larger_than_the_limit_hides_no_other(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", "small", "x" * 1_100_000)
    assert await find(database) == ["small"]


KNOWN = "its words are searched. Filters: server, tool, role, from, before, after."


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("tol:add x", (f"tol: is not a filter; {KNOWN}",)),
        ("-Serverr:notes", (f"Serverr: is not a filter; {KNOWN}",)),
        ("note:milk https://a.example/x tool:add a:b 'tol: add", ()),
        ('"tol:add"', ()),
    ],
)  # fmt: skip
def test_a_misspelt_filter_is_named_with_the_known_ones(text: str, notes: tuple[str, ...]) -> None:
    query = parse_query(text, now=0.0)
    assert query.notes == notes


async def test_messages_from_the_future_are_found_after_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(tmp_path / "s.db")
    now = time.time()
    times = {"old": now - 1_000 * DAY, "clock-jump": 2_208_988_800.0, "new": now - 10, "skewed": now + 60}
    for name, at in times.items():
        await store_parts(database, name, TextPart(f"the weather of {name}"), at=at)
    search = SearchStore(database)
    expected = ["skewed", "new", "old", "clock-jump"]
    assert [one.id for one in (await search.search("weather")).conversations] == expected
    assert [one.conversation for one in (await search.find_prompts("weather")).prompts] == expected
    assert [one.id for one in (await search.search("weather after:2035-01-01")).conversations] == ["clock-jump"]
    monkeypatch.setattr(message_search, "MAX_RANKED", 2)
    newest = await search.search("weather")
    assert [one.id for one in newest.conversations] == expected[:3]
    assert not newest.is_complete
    await database.close()


async def test_a_call_from_the_future_is_listed_after_all_others(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    now = time.time()
    for name, at in (("old", now - 1_000), ("clock-jump", 2_208_988_800.0), ("new", now - 10)):
        use = ToolUsePart(f"use-{name}", "files__read", {"path": name})
        await store_parts(database, name, use, role="assistant", at=at)
        result = ToolReturnPart(use.id, "files__read", "x", server="files", tool="read")
        await store_parts(database, name, result, role="tool", at=at)
    conversations = ConversationStore(database)
    for limit in (1, 10):
        calls = await conversations.list_calls("files", limit)
        assert [call.conversation for call in calls] == ["new", "old", "clock-jump"][:limit]
    await database.close()
