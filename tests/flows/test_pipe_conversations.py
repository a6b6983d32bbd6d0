"""Tests for the commands of `mcphost pipe` that list and open conversations, and that list and switch models."""

import json
import os
import sys
from typing import Any

import pytest

from tests.flows.inline_servers import WAITING_PROMPT_SERVER
from tests.flows.program import DEMO, PipeClient, Program, error_of


def talk(pipe: PipeClient, text: str) -> str:
    """Send a message, and return the id of the conversation."""
    result = pipe.ask("send", text=text)
    assert result["ok"], result
    return str(result["result"]["conversation"])


def texts(pipe: PipeClient, **members: Any) -> list[str]:
    """Return the texts of the messages from the user in the open conversation."""
    listed = pipe.ask("messages", **members)["result"]["messages"]
    return [message["parts"][0]["text"] for message in listed if message["role"] == "user"]


def test_a_program_starts_lists_reads_and_opens_conversations(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(), "--model", "demo") as pipe:
        assert pipe.ask("conversations")["result"] == {"open": "", "conversations": []}
        first = talk(pipe, "tea please")
        assert pipe.ask("new")["result"] == {}
        assert pipe.event("conversation_opened", id="")["messages"] == 0
        second = talk(pipe, "coffee please")
        assert first != second
        listed = pipe.ask("conversations")["result"]
        assert listed["open"] == second
        assert [(one["id"], one["title"], one["messages"], one["model"]) for one in listed["conversations"]] == [
            (second, "coffee please", 2, "demo"), (first, "tea please", 2, "demo"),
        ]  # fmt: skip
        assert len(pipe.ask("conversations", limit=1)["result"]["conversations"]) == 1
        opened = pipe.ask("open", conversation=first[:8])["result"]
        assert (opened["id"], opened["title"], opened["messages"]) == (first, "tea please", 2)
        assert pipe.event("conversation_opened", id=first)["messages"] == 2
        assert talk(pipe, "and milk") == first
        assert texts(pipe) == ["tea please", "and milk"]
    stored = json.loads(program.text("sessions", "--json"))["sessions"]
    assert [(one["id"], one["messages"]) for one in stored] == [(first, 4), (second, 2)]


def test_messages_are_read_a_page_at_a_time_from_the_newest(program: Program) -> None:
    with program.pipe("--mcp-config", program.servers(), "--model", "demo") as pipe:
        empty = pipe.ask("messages")["result"]
        assert empty == {"conversation": "", "count": 0, "messages": []}
        for text in ("one", "two", "three"):
            last = talk(pipe, text)
        newest = pipe.ask("messages", limit=2)["result"]
        assert (newest["conversation"], newest["count"]) == (last, 6)
        assert [(one["number"], one["role"]) for one in newest["messages"]] == [(5, "user"), (6, "assistant")]
        assert texts(pipe, limit=2, before=5) == ["two"]
        assert pipe.ask("messages", before=1)["result"]["messages"] == []


def test_a_message_written_right_after_open_or_new_goes_into_that_conversation(program: Program) -> None:
    (program.work / "notes.txt").write_text("tea")
    with program.pipe("--mcp-config", program.servers(), "--model", "demo") as pipe:
        first = talk(pipe, "first")
        pipe.ask("new")
        second = talk(pipe, "second")
        lines = (
            {"id": "opens", "do": "open", "conversation": first},
            {"id": "sends", "do": "send", "text": "into the first", "files": ["notes.txt"]},
        )
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert pipe.event("result", id="sends")["result"]["conversation"] == first
        lines = ({"id": "news", "do": "new"}, {"id": "again", "do": "send", "text": "into a third"})
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert pipe.event("result", id="again")["result"]["conversation"] not in (first, second)


def test_an_open_written_after_a_message_does_not_take_the_conversation_from_it(program: Program) -> None:
    (program.work / "notes.txt").write_text("tea")
    with program.pipe("--mcp-config", program.servers(demo=DEMO), "--model", "demo") as pipe:
        first = talk(pipe, "first")
        pipe.ask("new")
        pipe.ask("connect", server="demo")
        lines = (
            {"id": "sends", "do": "send", "text": "what is 2 + 40?", "files": ["notes.txt"]},
            {"id": "opens", "do": "open", "conversation": first},
            {"id": "news", "do": "new"},
            {"id": "switches", "do": "use_model", "model": "demo"},
        )
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        approve = pipe.event("question", kind="approve_tool")
        for later in ("opens", "news", "switches"):
            refused = pipe.event("result", id=later)
            assert error_of(refused) == ("usage", 2)
            assert refused["error"]["message"] == "The model is still answering."
        pipe.ask("answer", question=approve["question"], answer="once")
        assert pipe.event("result", id="sends")["result"]["conversation"] != first


def test_a_prompt_is_inserted_into_the_conversation_that_was_open_before_the_next_line(program: Program) -> None:
    gate = program.work / "gate"
    os.mkfifo(gate)
    server = {"command": sys.executable, "args": ["-c", WAITING_PROMPT_SERVER], "env": {"GATE": str(gate)}}
    with program.pipe("--mcp-config", program.servers(slow=server), "--model", "demo") as pipe:
        first = talk(pipe, "first")
        pipe.ask("connect", server="slow")
        lines = (
            {"id": "inserts", "do": "prompt", "server": "slow", "name": "p", "insert": True},
            {"id": "news", "do": "new"},
            {"id": "sends", "do": "send", "text": "into the second"},
        )
        pipe.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        assert pipe.ask("models")["ok"]  # the lines before were read
        gate.write_text("")
        assert pipe.event("result", id="inserts")["ok"]
        second = pipe.event("result", id="sends")["result"]["conversation"]
        assert second != first
        assert texts(pipe) == ["into the second"]
        assert pipe.ask("open", conversation=first)["ok"]
        assert texts(pipe) == ["first", "from the prompt"]


def test_a_program_lists_models_and_switches_to_one(program: Program) -> None:
    key = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef0123456789"}
    with program.pipe("--mcp-config", program.servers(), "--model", "demo", **key) as pipe:
        listed = pipe.ask("models")["result"]
        printed = json.loads(program.text("models", "--json", MCPHOST_MODEL="demo", **key))
        assert listed == printed
        assert listed["selected"] == "demo"
        usable = [one for one in listed["models"] if one["provider"] == "anthropic" and one["usable"]]
        assert len(usable) == 1
        of_provider = pipe.ask("models", provider="demo")["result"]["models"]
        assert [one["name"] for one in of_provider] == ["demo"]
        used = pipe.ask("use_model", model=usable[0]["name"])["result"]
        assert used == {"model": usable[0]["name"], "api_base": ""}
        assert pipe.event("model_changed", name=usable[0]["name"])["state"] == "loading"
        assert pipe.ask("models")["result"]["selected"] == usable[0]["name"]
        assert pipe.ask("model", model="demo")["ok"]
        assert talk(pipe, "hello")
        local = {"model": "openai/any", "api_base": "http://127.0.0.1:9/v1"}
        assert pipe.ask("use_model", **local)["result"] == local


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        ({"do": "open"}, "usage", '"conversation" is missing'),
        ({"do": "open", "conversation": "nope"}, "usage", "There is no conversation 'nope'."),
        ({"do": "open", "conversation": "a", "files": []}, "usage", 'open takes no "files".'),
        ({"do": "new", "title": "x"}, "usage", 'new takes no "title".'),
        ({"do": "conversations", "limit": -1}, "usage", '"limit" must be a number from 0 to 1000.'),
        ({"do": "conversations", "limit": True}, "usage", '"limit" must be a number from 0 to 1000.'),
        ({"do": "messages", "before": "x"}, "usage", '"before" must be a number from 0'),
        ({"do": "messages", "conversation": "x"}, "usage", 'messages takes no "conversation".'),
        ({"do": "models", "provider": "no-such-provider"}, "usage", "No provider 'no-such-provider' is known."),
        ({"do": "use_model"}, "usage", '"model" is missing'),
        ({"do": "model", "model": "bare"}, "usage", "The model needs a name such as openai/gpt-4o."),
        ({"do": "model", "model": "a/b", "api_base": "ftp://x"}, "usage", "does not start with http:// or https://"),
        ({"do": "model", "model": "a/" + "b" * 300}, "usage", "is over 200 characters."),
        ({"do": "use_model", "name": "demo", "model": "demo", "b": 1}, "usage", 'use_model takes no "name", "b".'),
    ],
)
def test_an_impossible_command_about_conversations_or_models_is_refused(
    program: Program, command: dict[str, Any], kind: str, words: str
) -> None:
    with program.pipe("--mcp-config", program.servers(), "--model", "demo") as pipe:
        do = command.pop("do")
        result = pipe.ask(do, **command)
        assert error_of(result) == (kind, 2)
        assert words in result["error"]["message"]
