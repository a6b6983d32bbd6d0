"""Tests for ranking tools by a query: names count most, word endings and case are ignored, and Chinese works."""

import pytest

from mcphost.host.servers.tool_registry import ToolOffer
from mcphost.host.tools.tool_search import ToolIndex, describe_matches, parse_matches
from mcphost.llm.model import ToolSpec
from mcphost.serialization import Raw


def offer(name: str, description: str = "", title: str = "", server: str = "s") -> ToolOffer:
    return ToolOffer(server, name, title, ToolSpec(f"{server}__{name}", description, Raw(b"{}")))


OFFERS = (
    offer("create_issue", "Open a new issue in a repository of the organization"),
    offer("listIssues", "List the issues of a repository, newest first"),
    offer("read_file", "Read a text file from the workspace"),
    offer("write_file", "Write a text file; creates the folders that are missing"),
    offer("send", "Send a message to a channel", "Post message", server="slack"),
    offer("查询天气", "查询一个城市的天气预报"),
    offer("x", "An unrelated tool whose description mentions an issue once in a much longer text about other things"),
)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("create issue", "create_issue"),
        ("creating an ISSUE", "create_issue"),
        ("list issues", "listIssues"),
        ("writing files", "write_file"),
        ("slack", "send"),
        ("post a message", "send"),
        ("make a new issue", "create_issue"),
        ("天气", "查询天气"),
        ("s__read_file", "read_file"),
    ],
)
def test_the_tool_that_was_meant_is_first(query: str, best: str) -> None:
    assert ToolIndex(OFFERS).search(query, 3)[0].tool == best


def test_tools_without_a_common_word_are_left_out_and_the_count_is_bounded() -> None:
    index = ToolIndex(OFFERS)

    assert index.search("zebra", 5) == []
    assert len(index.search("issue file message", 2)) == 2
    assert ToolIndex(()).search("issue", 5) == []


def test_the_names_in_a_result_are_read_back() -> None:
    text = describe_matches(OFFERS[:3])

    assert parse_matches(text) == ("s__create_issue", "s__listIssues", "s__read_file")
    assert parse_matches("No tool matches.") == ()


def test_of_many_long_descriptions_only_the_beginning_is_indexed() -> None:
    described = f"{'zebra crossing ' * 12}{'filler ' * 50}unicorn"
    assert ToolIndex([offer("a", described)]).search("unicorn", 1)
    many = ToolIndex([offer(f"t{number}", described) for number in range(5_000)])
    assert many.search("zebra", 1)
    assert many.search("unicorn", 1) == []
