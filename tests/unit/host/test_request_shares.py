"""Tests that the parts of a request add up to its size, each attributed to its cause."""

from mcphost.host.conversation.background_results import make_result_message
from mcphost.host.conversation.request_shares import measure_shares
from mcphost.llm.messages import ImagePart, Message, ResourcePart, TextPart, ToolReturnPart, ToolUsePart
from mcphost.llm.model import ModelRequest, ToolSpec
from mcphost.llm.token_estimate import estimate_request_tokens
from mcphost.serialization import Raw

SERVERS = {"files__read": "files", "mail__send": "mail"}
RESULT = ToolReturnPart("1", "files__read", "line\n" * 100, server="files", tool="read", outcome="ok")


def test_each_part_is_counted_once_under_what_caused_it() -> None:
    request = ModelRequest(
        messages=(
            Message(role="user", parts=(ResourcePart("docs", "docs://a", "text " * 50), TextPart("hello " * 20))),
            Message(role="assistant", parts=(ToolUsePart("1", "files__read", {"path": "/a"}),)),
            Message(role="tool", parts=(RESULT,)),
            make_result_message(RESULT),
            Message(role="user", parts=(ImagePart("image/png", "A", "picture.png"),)),
        ),
        system="You are helpful. " * 10,
        tools=(
            ToolSpec("files__read", "Read a file. " * 5, Raw(b"{}")),
            ToolSpec("mail__send", "Send a mail. " * 5, Raw(b"{}")),
            ToolSpec("search_tools", "Find tools. " * 5, Raw(b"{}")),
        ),
    )
    shares = measure_shares(request, lambda name: SERVERS.get(name, ""))

    assert {(share.kind, share.server, share.tool) for share in shares} == {
        ("system", "", ""),
        ("definitions", "files", ""),
        ("definitions", "mail", ""),
        ("definitions", "", ""),
        ("attachments", "docs", ""),
        ("attachments", "", ""),
        ("results", "files", "read"),
        ("messages", "", ""),
    }
    assert sum(share.tokens for share in shares) == estimate_request_tokens(request, since=0)
