"""Tests for describing OAuth scopes in words, claiming only what the scope's name implies."""

import pytest

from mcphost.host.questions.sign_in import describe_scope


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        ("offline_access", "stay signed in while you are away"),
        ("email", "see your email address"),
        ("tools:read", "read tools"),
        ("read:org", "read org"),
        ("issues.write", "read and change issues"),
        ("mcp:tools:execute", "run tools"),
        ("admin", "administer everything"),
        ("https://www.googleapis.com/auth/calendar.readonly", "read calendar"),
        ("repo", ""),
        ("api", ""),
        ("", ""),
        ("rëad:all\u202e", ""),
        ("\x1b[2Jread", ""),
    ],
)
def test_a_scope_is_described_by_its_name(scope: str, words: str) -> None:
    assert describe_scope(scope) == words
