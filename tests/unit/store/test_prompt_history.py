"""Tests for the user's earlier messages in all conversations, with a real store."""

from pathlib import Path

import pytest

from mcphost.llm.messages import ImagePart, Message, PromptSource, ResourcePart, Role, TextPart
from mcphost.store import prompt_history
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from mcphost.store.search import SearchStore

pytestmark = pytest.mark.anyio


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
    monkeypatch.setattr(prompt_history, "MAX_READ", 5)
    found = await SearchStore(database).find_prompts("")
    assert [one.text for one in found.prompts] == [f"message {number}" for number in range(19, 14, -1)]
    assert found.has_more
    assert await find(database, "message 3") == ["message 3"]


async def test_the_size_of_what_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", *(f"{number} {'x' * 1_000}" for number in range(20)))
    monkeypatch.setattr(prompt_history, "MAX_READ_BYTES", 3_000)
    found = await SearchStore(database).find_prompts("")
    assert len(found.prompts) == 3
    assert found.has_more


async def test_a_message_larger_than_the_limit_hides_no_other(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    await store(database, "a", "small", "x" * 1_100_000)
    assert await find(database) == ["small"]
