"""Tests for the open conversation, when messages can be saved and when saving fails."""

from pathlib import Path

import pytest

from mcphost.errors import StoreError
from mcphost.host.conversation_messages import Conversation
from mcphost.host.conversation_titles import TITLE_COLUMNS
from mcphost.host.lifetime import Lazy
from mcphost.llm.messages import Message, TextPart
from mcphost.store.conversation_deletion import ConversationDeletion
from mcphost.store.conversations import ConversationStore
from mcphost.store.database import Database
from tests.fakes.model import user_message

pytestmark = pytest.mark.anyio


async def test_its_title_is_the_first_line_bounded(tmp_path: Path) -> None:
    conversation = Conversation(Lazy(lambda: ConversationStore(Database(tmp_path / "s.db"))), lambda error: None)
    await conversation.append(user_message("\n  " + "x" * 200 + "\nmore"))
    assert len(conversation.title) == TITLE_COLUMNS
    assert conversation.title.endswith("…")


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hi!\n\nWhy does the build fail?", "Why does the build fail?"),
        ("Good morning, why does the build fail?", "why does the build fail?"),
        ("你好，构建为什么失败？", "构建为什么失败？"),
        ("Hello", "Hello"),
        ("Hello world in C", "Hello world in C"),
        ("Hi-fi", "Hi-fi"),
        ("```python\nprint(1)\n```\nWhat is this?", "print(1)"),
        ("@src/a.py explain it. Then write tests.", "@src/a.py explain it. Then write tests."),
        (
            "Explain how the scheduler picks a task. Then write tests for each of its cases, please.",
            "Explain how the scheduler picks a task.",
        ),
        (
            "Explain how the scheduler of version 1.2 picks the next task and why it never picks the oldest one first",
            "Explain how the scheduler of version 1.2 picks the next…",
        ),
        ("说明" * 40, "说明" * 14 + "说…"),
        ("", "Untitled"),
    ],
)
async def test_its_title_has_no_greeting_or_code_fence_and_ends_at_a_sentence_or_word(
    tmp_path: Path, text: str, title: str
) -> None:
    conversation = Conversation(Lazy(lambda: ConversationStore(Database(tmp_path / "s.db"))), lambda error: None)
    await conversation.append(user_message(text))
    assert conversation.title == title


async def test_a_failed_save_is_reported_once_and_repeated_later(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    saved = ConversationStore(database)
    messages: list[StoreError] = []
    conversation = Conversation(Lazy(lambda: saved), messages.append)
    await conversation.append(user_message("one"))
    await database.run(lambda db: db.execute("ALTER TABLE messages RENAME TO away"))
    await conversation.append(user_message("two"))
    await conversation.append(user_message("three"))
    assert len(messages) == 1
    assert [message.text for message in conversation.messages] == ["one", "two", "three"]
    await database.run(lambda db: db.execute("ALTER TABLE away RENAME TO messages"))
    await conversation.append(user_message("four"))
    loaded = await saved.load(conversation.id)
    assert [message.text for message in loaded or ()] == ["one", "two", "three", "four"]


async def test_saving_works_again_only_when_a_draft_that_failed_can_be_saved(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    saved = ConversationStore(database)
    messages: list[StoreError] = []
    conversation = Conversation(Lazy(lambda: saved), messages.append)
    await conversation.append(user_message("one"))
    await database.run(lambda db: db.execute("ALTER TABLE drafts RENAME TO away"))
    await conversation.save_draft(Message(role="assistant", parts=(TextPart("ha"),), at=2.0, cut=True))
    await conversation.save_draft(Message(role="assistant", parts=(TextPart("half"),), at=2.0, cut=True))
    assert len(messages) == 1
    assert not await conversation.save()
    await database.run(lambda db: db.execute("ALTER TABLE away RENAME TO drafts"))
    assert await conversation.save()
    loaded = await saved.load(conversation.id)
    assert [message.text for message in loaded or ()] == ["one", "half"]


async def test_a_failed_draft_is_forgotten_once_the_answer_is_saved(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    saved = ConversationStore(database)
    conversation = Conversation(Lazy(lambda: saved), lambda error: None)
    await conversation.append(user_message("one"))
    await database.run(lambda db: db.execute("ALTER TABLE drafts RENAME TO away"))
    await conversation.save_draft(Message(role="assistant", parts=(TextPart("half"),), at=2.0, cut=True))
    await database.run(lambda db: db.execute("ALTER TABLE away RENAME TO drafts"))
    await conversation.append(Message(role="assistant", parts=(TextPart("the whole"),), at=3.0))
    assert await conversation.save()
    loaded = await saved.load(conversation.id)
    assert [message.text for message in loaded or ()] == ["one", "the whole"]


async def test_a_stored_conversation_continues_where_it_was(tmp_path: Path) -> None:
    saved = ConversationStore(Database(tmp_path / "s.db"))
    first = Conversation(Lazy(lambda: saved), lambda error: None)
    await first.append(user_message("one"))
    again = await Conversation.load(Lazy(lambda: saved), lambda error: None, first.id)
    assert again is not None
    await again.append(user_message("two"))
    assert [message.text for message in await saved.load(first.id) or ()] == ["one", "two"]
    assert again.title == "one"


async def test_the_title_of_a_conversation_that_was_deleted_elsewhere_is_not_stored_again(tmp_path: Path) -> None:
    saved, told = ConversationStore(Database(tmp_path / "s.db")), list[str]()
    conversation = Conversation(Lazy(lambda: saved), lambda error: None)
    conversation.on_shared = told.append
    await conversation.append(user_message("a secret plan"))
    await conversation.append(Message(role="assistant", parts=(TextPart("Fine."),), at=2.0))
    await ConversationDeletion(Database(tmp_path / "s.db")).delete(conversation.id)
    await conversation.append(user_message("something else"))
    assert "Another mcphost deleted this conversation." in told[0]
    assert await saved.find_title(conversation.id) == conversation.title == "something else"


async def test_an_answer_that_a_crash_cut_off_is_kept_when_the_conversation_goes_on(tmp_path: Path) -> None:
    saved = ConversationStore(Database(tmp_path / "s.db"))
    first = Conversation(Lazy(lambda: saved), lambda error: None)
    await first.append(user_message("question"))
    await first.save_draft(Message(role="assistant", parts=(TextPart("half an ans"),), at=2.0, cut=True))
    opened = await Conversation.load(Lazy(lambda: saved), lambda error: None, first.id)
    assert opened is not None
    await opened.append(user_message("go on"))
    await opened.append(Message(role="assistant", parts=(TextPart("wer"),), at=3.0))
    stored = await saved.load_branch(first.id)
    assert [(row.number, row.message.text) for row in stored or ()] == [
        (1, "question"),
        (2, "half an ans"),
        (3, "go on"),
        (4, "wer"),
    ]
    assert list(opened.numbers) == [1, 2, 3, 4]


async def test_a_message_of_a_conversation_that_was_deleted_elsewhere_is_not_stored_again_after_a_rewind(
    tmp_path: Path,
) -> None:
    saved = ConversationStore(Database(tmp_path / "s.db"))
    conversation = Conversation(Lazy(lambda: saved), lambda error: None)
    await conversation.append(user_message("my secret plan"))
    await ConversationDeletion(Database(tmp_path / "s.db")).delete(conversation.id)
    await conversation.append(user_message("something else"))
    await conversation.rewind(1)
    await conversation.append(user_message("and more"))
    stored = await saved.load_branch(conversation.id)
    assert stored is not None
    assert "my secret plan" not in [row.message.text for row in stored]
