"""Tests of what a page can put on its server and learn from errors: few requests at a time, and neutral texts."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import HostConfig, Limits
from mcphost.errors import (
    ConfigError,
    ConnectionLost,
    ConsentDenied,
    McpHostError,
    RequestRefused,
    RequestTimeout,
    StartupError,
    StoreError,
    UsageError,
)
from mcphost.host.app_pages.page_calls import explain_to_page
from mcphost.host.app_pages.page_requests import MAX_PAGE_REQUESTS, MAX_SERVER_REQUESTS, PageLimits
from mcphost.host.event_bus import EventBus
from mcphost.host.lifetime import Lifetime
from mcphost.host.questions.frontend import TooManyQuestions
from mcphost.host.questions.questions import AllowOnce, AllowSession
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.running_calls import RunningCalls
from mcphost.host.tools.approval_checks import GrantRevoked
from mcphost.host.tools.call_scheduler import CallScheduler
from tests.unit.apps.browser import Browser
from tests.unit.host.audit_rows import create_audit_log, read_rows
from tests.unit.host.page_server import PAGE_URI, initialize, open_page
from tests.unit.host.scripted_host import InProcessServer

pytestmark = pytest.mark.anyio


class Held:
    """Requests of pages that a server holds back; each `answer_one` answers the oldest."""

    def __init__(self, peer: InProcessServer, *, holds: str) -> None:
        self._requests: list[Any] = []
        self._answer = peer._answer  # pyright: ignore[reportPrivateUsage]
        self._holds = holds
        self.most = 0
        peer._answer = self._hold  # type: ignore[method-assign]

    def __len__(self) -> int:
        return len(self._requests)

    def _hold(self, request: Any, params: dict[str, Any]) -> None:
        if self._holds in (params.get("name"), params.get("uri")):
            self._requests.append((request, params))
            self.most = max(self.most, len(self))
        else:
            self._answer(request, params)

    def answer_one(self) -> None:
        self._answer(*self._requests.pop(0))

    async def wait_for(self, count: int) -> None:
        with anyio.fail_after(20):
            while len(self) < count:
                await anyio.lowlevel.checkpoint()


async def post_requests(browser: Browser, method: str, params: dict[str, Any], count: int) -> None:
    for number in range(count):
        message = {"jsonrpc": "2.0", "id": f"{method} {number}", "method": method, "params": params}
        assert await browser.post(message) == 202


async def read_answers(held: Held, browser: Browser, count: int) -> list[Any]:
    """Let the server answer one request after the other; return the answers that the page got."""
    answers: list[Any] = []
    while len(answers) < count:
        await held.wait_for(1)
        held.answer_one()
        while "id" not in (message := await browser.read()):
            pass
        answers.append(message)
    return answers


@asynccontextmanager
async def open_limits(parallel_calls: int = 64) -> AsyncGenerator[PageLimits]:
    settings = RuntimeSettings(HostConfig(limits=Limits(parallel_calls=parallel_calls)))
    async with Lifetime() as lifetime:
        yield PageLimits(CallScheduler(lifetime, EventBus(), RunningCalls(), settings))


async def count_most(requests: list[Callable[[], AbstractAsyncContextManager[None]]]) -> int:
    """Begin all requests, each of which ends once no other one can begin; return how many ran at the same time."""
    running, most = 0, 0

    async def run(enter: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        nonlocal running, most
        async with enter():
            running += 1
            most = max(most, running)
            await anyio.wait_all_tasks_blocked()
            running -= 1

    async with anyio.create_task_group() as tasks:
        for enter in requests:
            tasks.start_soon(run, enter)
    assert running == 0
    return most


async def test_a_page_has_few_requests_at_its_server_at_the_same_time() -> None:
    async with open_limits() as limits:
        page = limits.for_page("peer")
        assert await count_most([page.call_slot] * 12) == MAX_PAGE_REQUESTS
        assert await count_most([page.read_slot] * 12) == MAX_PAGE_REQUESTS
        assert await count_most([page.read_slot, page.call_slot] * 6) == MAX_PAGE_REQUESTS


async def test_all_pages_of_a_server_share_a_limit_and_pages_of_others_do_not() -> None:
    async with open_limits() as limits:
        pages = [limits.for_page("peer") for _ in range(4)]
        assert await count_most([page.call_slot for page in pages for _ in range(4)]) == MAX_SERVER_REQUESTS
        both = [limits.for_page("other"), *pages]
        count = MAX_SERVER_REQUESTS + MAX_PAGE_REQUESTS
        assert await count_most([page.call_slot for page in both for _ in range(4)]) == count


async def test_calls_of_pages_count_among_the_calls_that_run_in_parallel_and_reads_do_not() -> None:
    async with open_limits(parallel_calls=2) as limits:
        pages = [limits.for_page(name) for name in ("one", "two", "three")]
        assert await count_most([page.call_slot for page in pages for _ in range(4)]) == 2
        assert await count_most([page.read_slot for page in pages for _ in range(4)]) == 3 * MAX_PAGE_REQUESTS


async def test_reads_of_a_page_wait_for_one_another(tmp_path: Path) -> None:
    async with open_page(tmp_path) as (_, browser, peer, _):
        await initialize(browser)
        held = Held(peer, holds=PAGE_URI)
        await post_requests(browser, "resources/read", {"uri": PAGE_URI}, 12)
        await held.wait_for(MAX_PAGE_REQUESTS)
        assert all("result" in answer for answer in await read_answers(held, browser, 12))
        assert held.most == MAX_PAGE_REQUESTS


async def test_a_call_that_waits_is_not_sent_after_its_page_cancelled_it(tmp_path: Path) -> None:
    async with open_page(tmp_path, AllowSession(), limits=Limits(parallel_calls=1)) as (_, browser, peer, _):
        await initialize(browser)
        assert "result" in await browser.call("tools/call", {"name": "refresh"})
        held = Held(peer, holds="refresh")
        await post_requests(browser, "tools/call", {"name": "refresh"}, 3)
        await held.wait_for(1)
        await browser.notify("notifications/cancelled", {"requestId": "tools/call 1"})
        answers = await read_answers(held, browser, 2)
        assert sorted(answer["id"] for answer in answers) == ["tools/call 0", "tools/call 2"]
        assert len(peer.asked("tools/call")) == 4


# -- errors

PATH = "/home/ada/.local/share/mcphost/mcphost.db"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RequestRefused("The server 'x' failed", server_message="no such city"), "no such city"),
        (RequestTimeout(f"no answer {PATH}"), "The server did not answer in time."),
        (ConnectionLost(f"ended: {PATH}"), "The server did not answer the request."),
        (StartupError(f"{PATH} did not start"), "The server did not answer the request."),
        (TooManyQuestions("Too many; ask again in 3 seconds."), "Too many; ask again in 3 seconds."),
        (GrantRevoked(PATH), "The call was not sent, because it is no longer allowed."),
        (ConsentDenied(PATH), "The user's configuration does not allow it."),
        *((kind(PATH), "mcphost could not answer the request.") for kind in (StoreError, UsageError, ConfigError)),
        (McpHostError(PATH), "mcphost could not answer the request."),
    ],
)
def test_a_page_learns_only_what_its_server_said(error: McpHostError, text: str) -> None:
    assert explain_to_page(error) == text


async def test_a_page_does_not_learn_where_the_user_s_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> None:
        raise StoreError(f"The store {PATH} cannot be written.")

    async with open_page(tmp_path, AllowOnce()) as (host, browser, peer, _):
        await initialize(browser)
        monkeypatch.setattr(host.audit, "record_event", fail)
        answer = await browser.call("tools/call", {"name": "refresh"})
        assert answer["error"] == {"code": -32000, "message": "mcphost could not answer the request."}
        assert [call["name"] for call in peer.asked("tools/call")] == ["show"]


async def test_a_page_that_repeats_a_forbidden_call_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    audit_log = create_audit_log(tmp_path)
    never = (parse_rule("peer/refresh"),)
    async with open_page(tmp_path, audit_log=audit_log, never=never) as (host, browser, _, frontend):
        await initialize(browser)
        answers = [await browser.call("tools/call", {"name": "refresh"}) for _ in range(30)]
        rows = await read_rows(host.audit)
        assert len(frontend.asked) == 1, "only about the page"
    assert answers[0]["error"]["message"] == "The user's configuration does not allow it."
    assert "ask again in" in answers[-1]["error"]["message"]
    assert sum((row.kind, row.event) == ("page", "asked") for row in rows) < 25
    await audit_log.close()
