"""Tests for hooks of a server whose results the user reviews: nothing from a result reaches the model unreviewed."""

from pathlib import Path
from typing import Any

import pytest

from mcphost.host.questions.questions import AllowOnce, PassResult, ReviewResult, WithholdResult
from tests.flows.hooked_host import HookedHost, make_hook, open_hooked_host

pytestmark = pytest.mark.anyio
NOTE = "print(json.dumps({'note': 'it says: ' + call['result']}))"
DENY = "print(json.dumps({'decision': 'deny', 'reason': 'it says: ' + call['result']}))"


async def call_and_review(folder: Path, code: str, *answers: Any) -> tuple[str, list[ReviewResult], HookedHost]:
    """Let the model call a tool of a reviewed server; return what the model receives, and the reviews."""
    hooks = [make_hook(folder, code, "after_call")]
    if code is DENY:
        hooks.insert(0, make_hook(folder, NOTE, "after_call"))
    async with open_hooked_host(folder, *hooks, answers=(AllowOnce(), *answers), reviewed=("peer",)) as hooked:
        told = await hooked.call()
    return told, [one for one in hooked.frontend.asked if isinstance(one, ReviewResult)], hooked


async def test_a_note_is_reviewed_with_the_result(tmp_path: Path) -> None:
    told, (review,), _ = await call_and_review(tmp_path, NOTE, PassResult())
    assert [part.text for part in review.parts] == ["Note from one of the user's hooks: it says: done", "done"]
    assert told.count("it says: done") == 1
    assert told.endswith("done")


async def test_a_note_on_a_withheld_result_is_withheld_too(tmp_path: Path) -> None:
    told, (review,), _ = await call_and_review(tmp_path, NOTE, WithholdResult())
    assert review.parts[0].text.endswith("it says: done")
    assert "done" not in told
    assert "withheld" in told


async def test_the_reason_and_the_notes_of_hooks_that_withhold_a_result_stay_with_the_user(tmp_path: Path) -> None:
    told, reviews, hooked = await call_and_review(tmp_path, DENY)
    assert reviews == []
    assert "one of the user's hooks withheld the result" in told
    assert "done" not in told
    assert any("withheld the result: it says: done" in text for text in hooked.notices())
