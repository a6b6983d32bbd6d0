"""Which icons of a server may ever be looked at."""

import pytest

from mcphost.host.icons import DATA_LIMIT, ICON_LIMIT, allowed
from mcphost.protocol.wire import Icon

PNG = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.req("icon.scheme")
@pytest.mark.parametrize(
    ("src", "server", "passes"),
    [
        (PNG, "", True),
        (PNG, "https://a.example/mcp", True),
        ("https://a.example/i.png", "https://a.example/mcp", True),
        ("https://a.example:443/i.png", "https://A.example/mcp", True),
        ("https://a.example:8443/i.png", "https://a.example/mcp", False),
        ("https://b.example/i.png", "https://a.example/mcp", False),
        ("https://a.example@b.example/i.png", "https://a.example/mcp", False),
        ("https://me@a.example/i.png", "https://a.example/mcp", False),
        ("https://a.example/i.png", "", False),
        ("https://a.example/i.png", "http://a.example/mcp", False),
        ("http://a.example/i.png", "http://a.example/mcp", False),
        ("file:///etc/passwd", "", False),
        ("javascript:alert(1)", "https://a.example/mcp", False),
        ("data:text/html;base64,PHNjcmlwdD4=", "", False),
        ("data:image/svg+xml;base64,PHN2Zz4=", "", False),
        ("https://[bad", "https://a.example/mcp", False),
        ("https://a.example:x/", "https://a.example/mcp", False),
        ("", "", False),
    ],
)
def test_only_pictures_in_the_message_or_of_the_same_origin_pass(src: str, server: str, passes: bool) -> None:
    assert bool(allowed((Icon(src),), server)) is passes


def test_icons_are_bounded() -> None:
    assert allowed((Icon(PNG + "A" * DATA_LIMIT),), "") == ()
    assert len(allowed((Icon(PNG),) * 1_000, "")) == ICON_LIMIT
