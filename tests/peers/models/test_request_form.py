"""Tests that a request to each provider has the path, the key and the members that its API documents, and no others.

Providers refuse members that they do not know, so that one addition of a library ends every conversation.
"""

import json
from typing import NamedTuple

import pytest

from mcphost.llm.messages import ImagePart, Message, TextPart
from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import API_ROUTES, KEY, PICTURE, ask_model, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]


class Form(NamedTuple):
    """A request as an API documents it: its path, the header with the key, and the members of its body."""

    path: str
    key_header: str
    members: frozenset[str]


CHAT = Form(
    "/v1/chat/completions",
    f"authorization: bearer {KEY}",
    frozenset({"model", "messages", "tools", "stream", "stream_options", "store"}),
)
FORMS = {
    "openai": CHAT,
    "compatible": CHAT,
    "responses": Form(
        "/v1/responses",
        f"authorization: bearer {KEY}",
        frozenset({"model", "input", "instructions", "tools", "reasoning", "include", "store", "stream"}),
    ),
    "anthropic": Form(
        "/v1/messages",
        f"x-api-key: {KEY}",
        frozenset({"model", "messages", "system", "tools", "max_tokens", "stream"}),
    ),
    "gemini": Form(
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        f"x-goog-api-key: {KEY}",
        frozenset({"contents", "system_instruction", "tools"}),
    ),
    "ollama": Form(
        "/api/chat",
        f"authorization: bearer {KEY}",
        frozenset({"model", "messages", "tools", "options", "stream"}),
    ),
}


@pytest.mark.req("llm.providers", "llm.openai.no-assistants")
@pytest.mark.parametrize("road", list(API_ROUTES))
async def test_a_request_has_the_path_the_key_and_the_members_that_the_api_documents(
    road: str, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.words, ours.pause, ours.ending = 2, 0, "complete"
    asked = Message(role="user", parts=(TextPart("look"), ImagePart("image/png", PICTURE)))
    reply = await ask_model(create_model(road, base, worker), asked)
    assert reply.error is None
    (body,), (head,) = ours.bodies, ours.heads
    form, (first, *headers) = FORMS[road], head.splitlines()
    assert first == f"POST {form.path} HTTP/1.1"
    assert form.key_header in [header.lower() for header in headers]
    assert [header for header in headers if KEY in header and not header.lower().startswith(form.key_header[:9])] == []
    assert frozenset(body) == form.members
    assert KEY not in json.dumps(body)
    if road == "anthropic":
        assert "anthropic-version: 2023-06-01" in headers
