"""All cases of the official conformance suite: each scenario with the protocol revisions it supports.

The suite's only scenarios for backward compatibility test OAuth of 2025-03-26. Older revisions also occur in the cases
with 2025-06-18, and in `sse-retry`, whose server responds with 2025-03-26.
"""

from typing import NamedTuple

SUITE = "0.2.0-alpha.12"
EXTENSION = ("2025-11-25", "2026-07-28")
"""A scenario of an extension is tagged with no revision; both wires carry it, once the suite is told to."""


class SuiteCase(NamedTuple):
    """One scenario with one protocol revision."""

    scenario: str
    revision: str
    extension: bool = False

    def __str__(self) -> str:
        return f"{self.scenario}@{self.revision}"

    @property
    def arguments(self) -> list[str]:
        """Return the suite's command-line arguments for this case."""
        force = ["--force"] if self.extension else []
        return ["--scenario", self.scenario, "--spec-version", self.revision, *force]


REVISION_SCENARIOS = {
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
    "auth/metadata-default": ("2025-11-25", "2026-07-28"),
    "auth/metadata-var1": ("2025-11-25", "2026-07-28"),
    "auth/metadata-var2": ("2025-11-25", "2026-07-28"),
    "auth/metadata-var3": ("2025-11-25", "2026-07-28"),
    "auth/basic-cimd": ("2025-11-25", "2026-07-28"),
    "auth/scope-from-www-authenticate": ("2025-11-25", "2026-07-28"),
    "auth/scope-from-scopes-supported": ("2025-11-25", "2026-07-28"),
    "auth/scope-omitted-when-undefined": ("2025-11-25", "2026-07-28"),
    "auth/scope-step-up": ("2025-11-25", "2026-07-28"),
    "auth/scope-retry-limit": ("2025-11-25", "2026-07-28"),
    "auth/token-endpoint-auth-basic": ("2025-06-18", "2025-11-25", "2026-07-28"),
    "auth/token-endpoint-auth-post": ("2025-06-18", "2025-11-25", "2026-07-28"),
    "auth/token-endpoint-auth-none": ("2025-06-18", "2025-11-25", "2026-07-28"),
    "auth/pre-registration": ("2025-11-25", "2026-07-28"),
    "auth/2025-03-26-oauth-metadata-backcompat": ("2025-03-26",),
    "auth/2025-03-26-oauth-endpoint-fallback": ("2025-03-26",),
    "auth/resource-mismatch": ("2026-07-28",),
    "auth/offline-access-scope": ("2026-07-28",),
    "auth/offline-access-not-supported": ("2026-07-28",),
    "auth/authorization-server-migration": ("2026-07-28",),
    "auth/iss-supported": ("2026-07-28",),
    "auth/iss-not-advertised": ("2026-07-28",),
    "auth/iss-supported-missing": ("2026-07-28",),
    "auth/iss-wrong-issuer": ("2026-07-28",),
    "auth/iss-unexpected": ("2026-07-28",),
    "auth/iss-normalized": ("2026-07-28",),
    "auth/metadata-issuer-mismatch": ("2026-07-28",),
}
EXTENSION_SCENARIOS = (
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
    "auth/dpop",
    "auth/dpop-nonce",
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
)
SUITE_CASES = (
    *(SuiteCase(scenario, revision) for scenario, revisions in REVISION_SCENARIOS.items() for revision in revisions),
    *(SuiteCase(scenario, revision, extension=True) for scenario in EXTENSION_SCENARIOS for revision in EXTENSION),
)
