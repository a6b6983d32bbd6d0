"""Tests for images in results, as shown to users: all valid ones, including those not sent to a model."""

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mcphost.host import events
from mcphost.host.content_rendering import MODEL_IMAGE_LIMIT
from mcphost.host.questions.questions import AllowOnce
from mcphost.llm.messages import ToolReturnPart
from tests.fakes.frontend import ScriptedFrontend
from tests.fakes.model import ScriptedModel, text_round, tool_round
from tests.unit.host.scripted_host import create_peer, open_host_with, tool_definition, tools_result

pytestmark = pytest.mark.anyio


def png_base64(size: int = 4) -> str:
    body = io.BytesIO()
    Image.new("RGB", (size, size)).save(body, "PNG")
    return base64.b64encode(body.getvalue()).decode()


def image_content(data: str, **members: Any) -> dict[str, Any]:
    return {"type": "image", "mimeType": "image/png", "data": data, **members}


async def show_result(tmp_path: Path, *content: dict[str, Any]) -> tuple[events.ToolFinished, ToolReturnPart]:
    """Call a tool with this result; return the event, and the part that the model received."""
    peer = create_peer(tools__list=tools_result(tool_definition("look")), tools__call={"content": list(content)})
    model = ScriptedModel(tool_round(("peer__look", {})), text_round("ok"))
    async with open_host_with(tmp_path, peer, model, ScriptedFrontend(AllowOnce())) as host:
        feed = host.events.subscribe()
        await host.conversation.send("go")
        (event,) = [item for item in feed.drain() if isinstance(item, events.ToolFinished)]
    (part,) = [part for part in model.requests[-1].messages[-1].parts if isinstance(part, ToolReturnPart)]
    return event, part


async def test_the_user_gets_an_image_for_the_user_alone_and_the_model_does_not(tmp_path: Path) -> None:
    mine, ours = png_base64(3), png_base64(5)
    event, part = await show_result(
        tmp_path, image_content(mine, annotations={"audience": ["user"]}), image_content(ours)
    )
    assert [image.data for image in event.images] == [mine, ours]
    assert [image.data for image in part.images] == [ours]


async def test_invalid_image_data_is_not_an_image(tmp_path: Path) -> None:
    event, _ = await show_result(
        tmp_path, image_content("bm90aGluZw=="), image_content("%%%"), {"type": "text", "text": "x"}
    )
    assert event.images == ()


def embedded_image(data: str, **members: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///a.png", "blob": data, **members}}


async def test_an_image_inside_a_resource_is_treated_like_any_other(tmp_path: Path) -> None:
    mine, ours = png_base64(3), png_base64(5)
    event, part = await show_result(
        tmp_path,
        embedded_image(mine, mimeType="application/octet-stream") | {"annotations": {"audience": ["user"]}},
        embedded_image(ours),
        embedded_image("bm90aGluZw==", mimeType="image/png"),
        embedded_image("%%%", mimeType="image/png"),
        embedded_image(ours, text="words", mimeType="image/png"),
    )
    assert [image.data for image in event.images] == [mine, ours]
    assert [image.data for image in part.images] == [ours]
    lines = event.text.splitlines()
    assert lines[0].startswith("[file:///a.png: image/png, 3 × 3 pixels, ")
    assert lines[0].endswith("; declared as application/octet-stream]")
    assert lines[1].startswith("[file:///a.png: image/png, 5 × 5 pixels, ")
    assert lines[2:] == [
        "[file:///a.png: image/png, 7 bytes]", "[file:///a.png: image/png, not valid base64]", "words",
    ]  # fmt: skip


async def test_all_images_of_a_result_together_are_bounded(tmp_path: Path) -> None:
    body = base64.b64decode(png_base64()) + bytes(MODEL_IMAGE_LIMIT // 3)
    data = base64.b64encode(body).decode()
    event, part = await show_result(tmp_path, *[image_content(data), embedded_image(data)] * 3)
    assert len(event.images) == len(part.images) == 2
    assert sum(len(image.data) for image in event.images) <= MODEL_IMAGE_LIMIT * 4 // 3
