"""Tests that if a provider redirects a request, neither the key nor the conversation is sent to the target."""

import pytest

from mcphost.llm.worker_client import WorkerProcess
from tests.peers.models.model_requests import API_ROUTES, ask_model, create_model
from tests.peers.models.raw_provider import RawProvider

pytestmark = [pytest.mark.anyio, pytest.mark.peer]


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("api_route", list(API_ROUTES))
async def test_a_redirect_is_refused_and_named(
    api_route: str, status: int, worker: WorkerProcess, raw_provider: tuple[RawProvider, str]
) -> None:
    ours, base = raw_provider
    ours.status, ours.headers = status, f"location: {base}/elsewhere\r\n".encode()
    error = (await ask_model(create_model(api_route, base, worker), "hi")).error
    assert error is not None
    assert f"redirects to '{base}/elsewhere', which was not followed" in error.message
    assert "api_base" in error.hint
    assert len(ours.heads) == 1
