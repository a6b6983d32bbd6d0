"""Tests for which of a server's icons may be loaded."""

import base64
import io

import pytest
from PIL import Image

from mcphost.host.server_views import DATA_LIMIT, ICON_LIMIT, allowed_icons, find_drawable, parse_icons
from mcphost.protocol.base import Icon
from mcphost.serialization import Raw

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
        ("http://a.example/i.png", "https://a.example/mcp", False),
        ("file:///etc/passwd", "", False),
        ("javascript:alert(1)", "https://a.example/mcp", False),
        ("data:text/html;base64,PHNjcmlwdD4=", "", False),
        ("data:image/svg+xml;base64,PHN2Zz4=", "", False),
        ("https://[bad", "https://a.example/mcp", False),
        ("https://a.example:x/", "https://a.example/mcp", False),
        ("", "", False),
    ],
)
def test_only_images_in_the_message_or_of_the_same_origin_are_accepted(src: str, server: str, passes: bool) -> None:
    assert bool(allowed_icons((Icon(src),), server)) is passes


def image_data_url(kind: str, claimed: str = "") -> str:
    body = io.BytesIO()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(body, kind)
    return f"data:{claimed or f'image/{kind.lower()}'};base64,{base64.b64encode(body.getvalue()).decode()}"


@pytest.mark.req("icon.mime", "icon.content")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_correctly_labelled_icon_can_be_drawn(kind: str) -> None:
    found = find_drawable((Icon(image_data_url(kind)),), dark=True)
    assert found is not None
    assert found.mime_type == f"image/{kind.lower()}"


SCRIPT = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>").decode()


@pytest.mark.req("icon.content", "icon.scheme")
@pytest.mark.parametrize(
    "src",
    [
        image_data_url("GIF", "image/png"),
        image_data_url("PNG", "image/jpeg"),
        image_data_url("GIF"),
        f"data:image/svg+xml;base64,{SCRIPT}",
        f"data:image/png;base64,{SCRIPT}",
        "data:image/png;base64,%%%",
        "data:image/png,iVBORw0KGgo",
        "https://a.example/i.png",
        "javascript:alert(1)",
    ],
)
def test_a_mislabelled_icon_is_skipped_for_the_next_one(src: str) -> None:
    assert find_drawable((Icon(src),), dark=True) is None
    good = Icon(image_data_url("PNG"))
    assert find_drawable((Icon(src), good), dark=True) == find_drawable((good,), dark=True)


def test_an_icon_for_this_theme_is_preferred_to_a_general_one_and_that_to_one_for_the_other() -> None:
    light, dark, any_ = (
        Icon(image_data_url("PNG"), theme="light"),
        Icon(image_data_url("JPEG"), theme="dark"),
        Icon(image_data_url("WEBP")),
    )

    def kind(*icons: Icon) -> str:
        found = find_drawable(icons, dark=True)
        return found.mime_type if found else ""

    assert (kind(light, any_, dark), kind(light, any_), kind(light)) == ("image/jpeg", "image/webp", "image/png")


@pytest.mark.parametrize("raw", [b"", b"null", b"3", b'[{"src":3}]', b"[", b'{"a":1}'])
def test_a_list_of_icons_that_cannot_be_read_is_none(raw: bytes) -> None:
    assert parse_icons(Raw(raw)) == ()


def test_icons_are_bounded() -> None:
    assert allowed_icons((Icon(PNG + "A" * DATA_LIMIT),), "") == ()
    assert len(allowed_icons((Icon(PNG),) * 1_000, "")) == ICON_LIMIT
