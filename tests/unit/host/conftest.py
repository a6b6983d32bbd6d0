"""Fixtures for the host tests."""

from collections.abc import AsyncIterator

import pytest

from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.sandbox.schema_validator import SchemaValidator


@pytest.fixture
async def rule_matcher() -> AsyncIterator[RuleMatcher]:
    """Return a matcher for permission rules that has its own schema validator process."""
    checker = SchemaValidator()
    yield RuleMatcher(checker)
    await checker.close()
