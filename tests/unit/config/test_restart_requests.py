"""Tests for restarting a server from another terminal: the command leaves a request in a file for running chats."""

from pathlib import Path

import pytest

from mcphost.config.restart_requests import REQUESTS_FILE, RestartRequests
from mcphost.errors import ConfigError


def taken(requests: RestartRequests) -> list[str]:
    return [request.name for request in requests.take()]


def test_each_running_chat_gets_each_request_once(tmp_path: Path) -> None:
    chats = [RestartRequests(tmp_path), RestartRequests(tmp_path)]
    assert [taken(chat) for chat in chats] == [[], []]
    RestartRequests(tmp_path).add("a", "/mcp.json")
    RestartRequests(tmp_path).add("b", "/mcp.json")
    assert [taken(chat) for chat in chats] == [["a", "b"]] * 2
    assert [taken(chat) for chat in chats] == [[], []]
    RestartRequests(tmp_path).add("a", "/mcp.json")
    assert [taken(chat) for chat in chats] == [["a"]] * 2


def test_a_chat_that_starts_later_gets_no_earlier_request(tmp_path: Path) -> None:
    RestartRequests(tmp_path).add("a", "/mcp.json")
    assert taken(RestartRequests(tmp_path)) == []


@pytest.mark.parametrize("content", [b"", b"[", b'{"requests": 3}', b"x" * 100_000])
def test_a_damaged_file_is_empty_and_replaced_by_the_next_request(tmp_path: Path, content: bytes) -> None:
    chat = RestartRequests(tmp_path)
    (tmp_path / REQUESTS_FILE).write_bytes(content)
    assert taken(chat) == []
    RestartRequests(tmp_path).add("a", "/mcp.json")
    assert taken(chat) == ["a"]


def test_only_the_newest_requests_are_kept(tmp_path: Path) -> None:
    chat = RestartRequests(tmp_path)
    for number in range(60):
        RestartRequests(tmp_path).add(str(number), "/mcp.json")
    assert taken(chat) == [str(number) for number in range(10, 60)]


def test_a_folder_that_cannot_be_written_is_named_with_another_way(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written") as caught:
        RestartRequests(tmp_path / "file" / "state").add("a", "/mcp.json")
    assert "/servers" in caught.value.hint
