"""Style sheets that share what they parsed: every app under test reads the same rules."""

from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet

_PARSED: dict[tuple[tuple[str, str], ...], dict[Any, Any]] = {}
"""The rules of each source, by the values of the variables in it. Textual does not change rules that it has parsed."""


def share_parsed_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let style sheets with the same variables use one cache."""
    start, change = Stylesheet.__init__, Stylesheet.set_variables

    def start_shared(self: Stylesheet, *, variables: dict[str, str] | None = None) -> None:
        start(self, variables=variables)
        self._parse_cache = _PARSED.setdefault(tuple((variables or {}).items()), {})  # type: ignore[assignment]

    def change_shared(self: Stylesheet, variables: dict[str, str]) -> None:
        self._parse_cache = {}  # type: ignore[assignment]
        change(self, variables)
        self._parse_cache = _PARSED.setdefault(tuple(variables.items()), {})  # type: ignore[assignment]

    monkeypatch.setattr(Stylesheet, "__init__", start_shared)
    monkeypatch.setattr(Stylesheet, "set_variables", change_shared)
