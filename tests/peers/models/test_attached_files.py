"""Tests that attached files are sent to each provider in its own format."""

import base64
from typing import Any

import pytest

from mcphost.llm.messages import FilePart, ImagePart, Message, ResourcePart, TextPart
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import ask_model, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]
DATA = base64.b64encode(b"%PDF-1.7\n").decode()
DATA_URL = f"data:application/pdf;base64,{DATA}"
PICTURE = "iVBORw0KGgo="
ASKED = Message(
    role="user",
    parts=(
        ResourcePart("", "notes.md", "the notes"),
        FilePart("docs/paper.pdf", "application/pdf", DATA),
        ImagePart("image/png", PICTURE, name="shot.png"),
        TextPart("Compare them."),
    ),
)


def sent_items(route: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    match route:
        case "openai" | "anthropic":
            return next(message["content"] for message in body["messages"] if message["role"] == "user")
        case "responses":
            return body["input"][0]["content"]
        case _:
            return body["contents"][0]["parts"]


WANTED: dict[str, Any] = {
    "openai": {"type": "file", "file": {"filename": "paper.pdf", "file_data": DATA_URL}},
    "responses": {"type": "input_file", "filename": "paper.pdf", "file_data": DATA_URL},
    "anthropic": {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": DATA}},
    "gemini": {"inline_data": {"data": DATA, "mime_type": "application/pdf"}},
}


@pytest.mark.parametrize("route", list(WANTED))
async def test_a_pdf_file_is_sent_in_the_format_of_each_provider(
    route: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    provider, base = raw_provider
    provider.status = 400
    await ask_model(create_model(route, base, worker), ASKED)
    items = sent_items(route, provider.bodies[0])
    texts = [item["text"] for item in items if "text" in item]
    assert texts == ["Attached file notes.md:\n\nthe notes", "Attached image shot.png:", "Compare them."]
    assert len(items) == 5
    assert WANTED[route].items() <= items[1].items()


async def test_a_model_without_pdf_support_is_told_that_a_file_was_left_out(
    worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    provider, base = raw_provider
    provider.status = 400
    song = FilePart("song.mp3", "audio/mp3", "SUQz")
    await ask_model(create_model("openai", base, worker), Message(role="user", parts=(song, TextPart("What is it?"))))
    (asked,) = (message for message in provider.bodies[0]["messages"] if message["role"] == "user")
    assert asked["content"] == (
        "(The file song.mp3 was left out: this model does not accept such files.)\n\nWhat is it?"
    )
