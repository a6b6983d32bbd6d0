"""Tests for results that reach the model unreviewed: a rule must allow it, and the audit log must record it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import AuditConfig
from mcphost.errors import UsageError
from mcphost.host.argument_origins import NO_ORIGINS, ArgumentOrigin, ArgumentOrigins
from mcphost.host.audit.audit_log import AuditLog, create_in_memory_log
from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.host.questions.questions import ResultPart, WithholdResult
from mcphost.host.tools.result_review import WITHHELD, ResultReviewer
from mcphost.serialization import replace
from mcphost.store.audit_store import AuditStore
from tests.fakes.frontend import ScriptedFrontend

pytestmark = pytest.mark.anyio
PARTS = (ResultPart(kind="text", text="a result"),)


def create_servers(account: str = "work") -> Any:
    def find(name: str) -> Any:
        if name != "s":
            raise UsageError("There is no such server.")
        return SimpleNamespace(account=account, folder="/srv", config=SimpleNamespace(review_results=True))

    return SimpleNamespace(find=find, removed_with_review=set[str]())


def create_reviewer(
    frontend: Any,
    matching: RuleMatcher,
    rule: Any,
    audit_log: AuditLog | None = None,
    origins: ArgumentOrigins = NO_ORIGINS,
) -> ResultReviewer:
    feeds: Any = SimpleNamespace(publish=lambda event: None)

    async def find_origins(server: str, arguments: dict[str, Any]) -> ArgumentOrigins:
        return origins

    log = audit_log or create_in_memory_log()
    return ResultReviewer(frontend, log, feeds, create_servers(), matching, (rule,), find_origins)


@pytest.mark.parametrize(
    ("rule", "arguments", "passes"),
    [
        (parse_rule("s/t?p=under:/srv"), {"p": "x"}, True),
        (parse_rule("s/t?p=under:/srv"), {"p": "file:///srv/x"}, False),
        (parse_rule("s/t?p=under:/srv"), {"p": "/etc/passwd"}, False),
        (parse_rule("s/u"), {}, False),
        (replace(parse_rule("s/t"), account="work"), {}, True),
        (replace(parse_rule("s/t"), account="home"), {}, False),
    ],
)
async def test_a_result_is_given_unread_only_where_a_rule_certainly_covers_its_call(
    rule_matcher: RuleMatcher, rule: Any, arguments: dict[str, Any], passes: bool
) -> None:
    frontend = ScriptedFrontend(WithholdResult("no"))
    result = await create_reviewer(frontend, rule_matcher, rule).review("s", "c", "t", arguments, PARTS, "")
    assert result.parts == (PARTS if passes else ())
    assert len(frontend.asked) == (not passes)


@pytest.mark.parametrize(("text", "passes"), [("s/t?never-from:mail", False), ("s/t?from:mail", True)])
async def test_a_rule_about_origins_passes_results_by_where_the_arguments_came_from(
    rule_matcher: RuleMatcher, text: str, passes: bool
) -> None:
    origin = ArgumentOrigin(argument="p", server="mail", source="read", characters=20)
    frontend = ScriptedFrontend(WithholdResult("no"))
    reviewer = create_reviewer(frontend, rule_matcher, parse_rule(text), origins=ArgumentOrigins(found=(origin,)))
    result = await reviewer.review("s", "c", "t", {"p": "x"}, PARTS, "")
    assert result.parts == (PARTS if passes else ())


async def test_results_that_must_be_recorded_and_cannot_be_are_withheld(
    rule_matcher: RuleMatcher, tmp_path: Path
) -> None:
    (tmp_path / "no").write_text("a file where a folder should be")
    strict = AuditLog(AuditStore(tmp_path / "no" / "l.db"), AuditConfig(required=True))
    result = await create_reviewer(ScriptedFrontend(), rule_matcher, parse_rule("s"), strict).review(
        "s", "c", "t", {}, PARTS, ""
    )
    assert result.parts == ()
    assert result.replacement.startswith(WITHHELD)
    assert "audit log" in result.replacement


async def test_an_unconfigured_server_needs_no_review(rule_matcher: RuleMatcher) -> None:
    reviewer = create_reviewer(ScriptedFrontend(), rule_matcher, parse_rule("s"))
    assert (reviewer.is_required("s"), reviewer.is_required("gone")) == (True, False)
