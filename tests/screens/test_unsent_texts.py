"""Tests for unsent text: saved while typing, restored with its conversation, and removed once sent."""

import sys

import anyio
import pytest

from mcphost.host.conversation.unsent_texts import UnsentTexts
from mcphost.llm.messages import ResourcePart
from mcphost.store.conversations import ConversationInfo
from mcphost.store.database import Database
from mcphost.store.unsent_texts import UnsentText, UnsentTextStore
from mcphost.tui.message_queue import QueuedMessage
from mcphost.tui.screens.unsent_texts import UNKNOWN_TARGET
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft
from tests.screens.conftest import Run

pytestmark = pytest.mark.anyio


async def read_places(database: Database) -> dict[str, str]:
    rows = await database.run(lambda db: db.execute("SELECT place, body FROM unsent_texts").fetchall())
    return {place: body.decode() for place, body in rows}


async def test_a_text_is_stored_while_it_is_typed_and_deleted_once_it_is_sent(run: Run) -> None:
    async with run() as driver:
        await driver.type("half a thought")
        while "half a thought" not in "".join((await read_places(driver.host.database)).values()):
            await driver.pilot.pause(0.05)
        await driver.pilot.press("enter")
        await driver.until(lambda: driver.app.query_one(Composer).draft.text == "")
        while await read_places(driver.host.database):
            await driver.pilot.pause(0.05)


KEY = "sk-proj-abcdefghij0123456789"


async def test_an_api_key_in_the_composer_is_never_stored(run: Run) -> None:
    async with run() as driver:
        await driver.until(lambda: driver.app.chat.drafts is not None)
        assert driver.app.chat.drafts is not None
        driver.app.chat.composer_input.text = f"{KEY}\n"
        driver.app.chat.drafts.save_soon()
        await driver.host.history.unsent.flush()
        assert KEY not in "".join((await read_places(driver.host.database)).values())
        driver.app.chat.composer_input.text = "a note"
        driver.app.chat.drafts.save_soon()
        await driver.host.history.unsent.flush()
        assert "a note" in "".join((await read_places(driver.host.database)).values())


async def test_a_stored_api_key_is_not_restored_and_soon_deleted(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        await UnsentTextStore(host.database).save({"c9": UnsentText(KEY, queued=("first",))})
        await driver.until(lambda: driver.app.chat.drafts is not None)
        await host.conversation.open("c9")
        await driver.until(lambda: driver.app.query_one(Composer).draft.text == "first")
        while KEY in "".join((await read_places(host.database)).values()):
            await driver.pilot.pause(0.05)


async def test_the_server_of_a_restored_prompt_is_remembered(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo(name, "About files", "scripted/one", 3, 1.7e9, 1.7e9) for name in ("c8", "c9")]
        texts = {
            "c8": UnsentText("of my command", "inserted", "/review"),
            "c9": UnsentText("of a server", "inserted", "files"),
        }
        await UnsentTextStore(host.database).save(texts)
        await driver.until(lambda: driver.app.chat.drafts is not None)
        for place, text in texts.items():
            await host.conversation.open(place)
            await driver.until(lambda text=text: driver.app.query_one(Composer).draft.text == text.text)
        assert host.features.noted == [("files", "prompt", "of a server")]
        assert host.features.noted_targets == [UNKNOWN_TARGET]


async def test_the_unknown_server_of_an_earlier_version_stays_unknown_when_the_text_is_stored_again(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        host.servers.targets["crm"] = "current"
        await UnsentTextStore(host.database).save({"c9": UnsentText("of a server", "inserted", "crm")})
        await driver.until(lambda: driver.app.chat.drafts is not None)
        await host.conversation.open("c9")
        await driver.until(lambda: host.features.noted_targets == [UNKNOWN_TARGET])
        driver.app.query_one(Composer).insert_prompt_text("crm", " and more")
        while "more" not in "".join((await read_places(host.database)).values()):
            await driver.pilot.pause(0.05)
        assert (await UnsentTextStore(host.database).load("c9")).servers == (("crm", UNKNOWN_TARGET),)


async def test_every_server_of_a_draft_and_of_its_waiting_messages_is_restored(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        chat = driver.app.chat
        await driver.until(lambda: chat.drafts is not None)
        chat.queue.add(QueuedMessage(Draft("waiting", "inserted", ("mail",))))
        composer = driver.app.query_one(Composer)
        composer.insert_prompt_text("crm", "of one server ")
        composer.insert_prompt_text("shop", "of another")
        while not await read_places(host.database):
            await driver.pilot.pause(0.05)
        (place,) = await read_places(host.database)
        stored = await UnsentTextStore(host.database).load(place)
        assert stored.sources == ("mail", "crm", "shop")
        await UnsentTextStore(host.database).save({"c9": stored})
        await host.conversation.open("c9")
        await driver.until(lambda: composer.draft.text == "waiting\nof one server of another")
        assert composer.draft.sources == ("mail", "crm", "shop")
        assert [server for server, _, _ in host.features.noted] == ["mail", "crm", "shop"]


async def test_the_text_of_a_server_that_was_replaced_since_is_not_that_of_the_current_one(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        host.servers.targets["crm"] = "old"
        await driver.until(lambda: driver.app.chat.drafts is not None)
        composer = driver.app.query_one(Composer)
        composer.insert_prompt_text("crm", "of the old server")
        while not await read_places(host.database):
            await driver.pilot.pause(0.05)
        (place,) = await read_places(host.database)
        stored = await UnsentTextStore(host.database).load(place)
        await UnsentTextStore(host.database).save({"c9": stored})
        host.servers.targets["crm"] = "new"
        await host.conversation.open("c9")
        await driver.until(lambda: host.features.noted_targets == ["old"])
        composer.insert_prompt_text("crm", " and more")
        while "more" not in "".join((await read_places(host.database)).values()):
            await driver.pilot.pause(0.05)
        assert (await UnsentTextStore(host.database).load("c9")).servers == (("crm", "old"),)


async def test_the_attachments_of_waiting_messages_are_stored_and_restored_before_those_of_the_draft(run: Run) -> None:
    first, second = (ResourcePart("files", f"file:///{name}.txt", "x") for name in ("first", "second"))
    async with run() as driver:
        host, chat = driver.host, driver.app.chat
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        await driver.until(lambda: chat.drafts is not None)
        chat.queue.add(QueuedMessage(Draft("look at the first"), (first,)))
        chat.attachments.add(second)
        await driver.type("and the second")
        while "and the second" not in "".join((await read_places(host.database)).values()):
            await driver.pilot.pause(0.05)
        (place,) = await read_places(host.database)
        stored = await UnsentTextStore(host.database).load(place)
        assert stored.attachments == (first, second)
        await UnsentTextStore(host.database).save({"c9": stored})
        await host.conversation.open("c9")
        await driver.until(lambda: driver.app.query_one(Composer).draft.text == "look at the first\nand the second")
        assert chat.attachments.parts == [first, second]


async def test_each_conversation_gets_its_text_back_with_waiting_messages_and_attachments(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        part = ResourcePart("files", "file:///notes.txt", "x")
        stored = UnsentText("and this", queued=("first", "second"), attachments=(part,))
        await UnsentTextStore(host.database).save({"c9": stored})
        await driver.until(lambda: driver.app.chat.drafts is not None)
        await driver.type("for the new one")
        await host.conversation.open("c9")
        await driver.until(lambda: driver.app.query_one(Composer).draft.text == "first\nsecond\nand this")
        assert driver.app.chat.attachments.parts == [part]
        assert "for the new one" in "".join((await read_places(host.database)).values())


async def test_a_text_that_is_stored_just_after_another_conversation_was_opened_stays_with_its_own(run: Run) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        await driver.until(lambda: driver.app.chat.drafts is not None)
        drafts = driver.app.chat.drafts
        assert drafts is not None
        await driver.type("for the new one")
        await host.conversation.open("c9")
        drafts.capture()  # before the screen shows the opened conversation
        await driver.until(lambda: driver.app.query_one(Composer).draft.text == "")
        await host.history.unsent.flush()
        places = await read_places(host.database)
        assert [place.partition("-")[0] for place in places] == ["new"]
        assert "for the new one" in "".join(places.values())


@pytest.mark.parametrize("command", ["/context", "!files/search_files pattern=x", "/main.py", "!"])
async def test_a_command_typed_after_a_restored_text_is_sent_with_it_only_after_a_second_enter(
    run: Run, command: str
) -> None:
    async with run() as driver:
        host = driver.host
        host.stored = [ConversationInfo("c9", "About files", "scripted/one", 3, 1.7e9, 1.7e9)]
        await UnsentTextStore(host.database).save({"c9": UnsentText("my draft here", "typed")})
        await driver.until(lambda: driver.app.chat.drafts is not None)
        await host.conversation.open("c9")
        composer, notices = driver.app.query_one(Composer), driver.app._notifications  # pyright: ignore[reportPrivateUsage]
        await driver.until(lambda: composer.draft.text == "my draft here")
        await driver.until(lambda: any("unsent text is in" in one.message for one in notices))
        await driver.type(command)
        await driver.pilot.press("enter")
        if command in ("/context", "!files/search_files pattern=x"):
            await driver.until(lambda: any("follows restored" in one.message for one in notices))
            assert (host.sent, composer.draft.text) == ([], f"my draft here{command}")
            await driver.pilot.press("enter")
        await driver.until(lambda: host.sent)
        assert host.sent[0][0] == f"my draft here{command}"


async def test_the_text_of_an_ended_program_is_taken_over_once() -> None:
    database = Database(None)
    store = UnsentTextStore(database)
    ended = await anyio.run_process([sys.executable, "-c", "import os; print(os.getpid())"])
    await store.save({"new-a": UnsentText("left behind"), "new-b": UnsentText("of a running program")})
    await database.run(
        lambda db: db.execute("UPDATE unsent_texts SET owner = ? WHERE place = 'new-a'", (int(ended.stdout),)) and None
    )
    assert await store.claim_new() == ("new-a", UnsentText("left behind"))
    place, text = await store.claim_new()
    assert place not in ("new-a", "new-b")
    assert text.is_empty


async def test_a_text_with_large_attachments_is_kept_without_them() -> None:
    store = UnsentTextStore(Database(None))
    parts = (ResourcePart("s", "u", "x" * 5_000_000),)
    await store.save({"c": UnsentText("words", attachments=parts)})
    assert await store.load("c") == UnsentText("words")


async def test_a_store_that_fails_stops_nobody() -> None:
    unsent = UnsentTexts(Database(None, migrations=()))
    unsent.keep("c", UnsentText("words"))
    await unsent.flush()
    assert (await unsent.load("c")).is_empty
