"""Which results are given to the model unread: what a rule of the run certainly covers, once that is recorded."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcphost.config.rules import parse
from mcphost.config.schema import LedgerConfig
from mcphost.errors import UsageError
from mcphost.host.audit.audit_log import Journal, in_memory
from mcphost.host.consent.rule_matching import Matching
from mcphost.host.questions.result_review_questions import Piece, Withhold
from mcphost.host.tools.result_review import WITHHELD, Reviewing
from mcphost.sandbox.schema_validator import Checker
from mcphost.serialization import replace
from mcphost.store.audit_store import Ledger
from tests.fakes.front import ScriptedFront

pytestmark = pytest.mark.anyio
PARTS = (Piece(kind="text", text="a result"),)


def servers(account: str = "work") -> Any:
    def find(name: str) -> Any:
        if name != "s":
            raise UsageError("There is no such server.")
        return SimpleNamespace(account=account, folder="/srv", config=SimpleNamespace(review_results=True))

    return SimpleNamespace(find=find)


@pytest.fixture
async def matching() -> AsyncIterator[Matching]:
    checker = Checker()
    yield Matching(checker)
    await checker.close()


def reviewing(front: Any, matching: Matching, rule: Any, journal: Journal | None = None) -> Reviewing:
    feeds: Any = SimpleNamespace(put=lambda event: None)
    return Reviewing(front, journal or in_memory(), feeds, servers(), matching, (rule,))


@pytest.mark.parametrize(
    ("rule", "arguments", "passes"),
    [
        (parse("s/t?p=under:/srv"), {"p": "x"}, True),
        (parse("s/t?p=under:/srv"), {"p": "file:///srv/x"}, False),
        (parse("s/t?p=under:/srv"), {"p": "/etc/passwd"}, False),
        (parse("s/u"), {}, False),
        (replace(parse("s/t"), account="work"), {}, True),
        (replace(parse("s/t"), account="home"), {}, False),
    ],
)
async def test_a_result_is_given_unread_only_where_a_rule_certainly_covers_its_call(
    matching: Matching, rule: Any, arguments: dict[str, Any], passes: bool
) -> None:
    front = ScriptedFront(Withhold("no"))
    got = await reviewing(front, matching, rule).review("s", "c", "t", arguments, PARTS, "")
    assert got.parts == (PARTS if passes else ())
    assert len(front.asked) == (not passes)


async def test_what_must_be_recorded_and_cannot_be_is_withheld(matching: Matching, tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file where a folder should be")
    strict = Journal(Ledger(tmp_path / "no" / "l.db"), LedgerConfig(required=True))
    got = await reviewing(ScriptedFront(), matching, parse("s"), strict).review("s", "c", "t", {}, PARTS, "")
    assert got.parts == ()
    assert got.instead.startswith(WITHHELD)
    assert "ledger" in got.instead


async def test_a_server_that_is_not_configured_any_more_has_nobody_who_wants_to_read_it(matching: Matching) -> None:
    desk = reviewing(ScriptedFront(), matching, parse("s"))
    assert (desk.wanted("s"), desk.wanted("gone")) == (True, False)
