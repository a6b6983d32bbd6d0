"""Every pair of scenario and revision of the official suite that is about the protocol, not about authorization.

The suite's only scenarios that are named for backward compatibility are about OAuth of 2025-03-26; what it has of older
revisions besides are the pairs at 2025-06-18, and `sse-retry`, whose server answers 2025-03-26.
"""

from typing import NamedTuple

SUITE = "0.2.0-alpha.12"
AUTHORIZATION = "auth/"
EXTENSION = ("2025-11-25", "2026-07-28")
"""A scenario of an extension is tagged with no revision; both wires carry it, once the suite is told to."""


class Pair(NamedTuple):
    """One run of the suite."""

    scenario: str
    revision: str
    extension: bool = False

    def __str__(self) -> str:
        return f"{self.scenario}@{self.revision}"

    @property
    def flags(self) -> list[str]:
        """How the suite is told to run it."""
        force = ["--force"] if self.extension else []
        return ["--scenario", self.scenario, "--spec-version", self.revision, *force]


DATED = {
    "initialize": ("2025-06-18", "2025-11-25"),
    "tools_call": ("2025-06-18", "2025-11-25", "2026-07-28"),
    "elicitation-sep1034-client-defaults": ("2025-11-25",),
    "sse-retry": ("2025-11-25",),
    "request-metadata": ("2026-07-28",),
    "sep-2322-client-request-state": ("2026-07-28",),
    "http-standard-headers": ("2026-07-28",),
    "http-custom-headers": ("2026-07-28",),
    "http-invalid-tool-headers": ("2026-07-28",),
    "json-schema-ref-no-deref": ("2026-07-28",),
    "json-schema-2020-12-preservation": ("2025-11-25", "2026-07-28"),
}
EXTENSIONS = (
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
)
PAIRS = (
    *(Pair(scenario, revision) for scenario, revisions in DATED.items() for revision in revisions),
    *(Pair(scenario, revision, extension=True) for scenario in EXTENSIONS for revision in EXTENSION),
)
NOT_YET: frozenset[str] = frozenset()
"""Scenarios whose feature is still missing; a test fails when one of them passes and still stands here."""
