"""Fixtures of the host tests."""

from collections.abc import AsyncIterator

import pytest

from mcphost.host.consent.rule_matching import RuleMatcher
from mcphost.sandbox.schema_validator import SchemaValidator


@pytest.fixture
async def rule_matcher() -> AsyncIterator[RuleMatcher]:
    """Return a matcher with its own validator process."""
    checker = SchemaValidator()
    yield RuleMatcher(checker)
    await checker.close()
