"""The requirements that each scenario of the official suite proves: it fails if the required behaviour is missing.

This was verified for each pair with the mutations in `tests/spec/mutations`. Behaviour that a scenario uses but does
not check is not claimed. Run `uv run python -m tests.spec.mutate_suite` to verify it again.
"""

PROVED_REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "initialize": (
        "life.init.params",
        "life.init.supported-version-only",
    ),
    "tools_call": (
        "tools.call.request",
        "http.response.both-types",
    ),
    "elicitation-sep1034-client-defaults": (
        "elic.wire.legacy",
        "elic.form.boolean",
        "elic.form.mode-absent",
    ),
    "sse-retry": (
        "http.resume.post-streams",
        "http.sse.priming-event",
    ),
    "request-metadata": (
        "base.meta.required-per-request",
        "hdr.version",
    ),
    "sep-2322-client-request-state": (
        "mrtr.retry.same-params",
        "mrtr.retry.new-id",
        "base.result-type.switch",
        "base.result-type.absent",
    ),
    "http-standard-headers": (
        "hdr.method",
        "hdr.name",
    ),
    "http-custom-headers": (
        "hdr.param.support",
        "hdr.param.omit",
        "hdr.param.boolean",
        "hdr.param.base64",
        "hdr.param.injection",
        "hdr.param.empty",
        "hdr.param.prefix",
    ),
    "http-invalid-tool-headers": (
        "hdr.tool.reject",
        "hdr.tool.reject-empty",
        "hdr.tool.reject-duplicate",
    ),
    "auth/metadata-default": (
        "auth.prm.required",
        "auth.pkce.always",
        "auth.pkce.s256",
        "auth.resource.both",
        "auth.bearer.header",
    ),
    "auth/metadata-var1": ("auth.asm.both-mechanisms",),
    "auth/metadata-var2": ("auth.prm.well-known-root",),
    "auth/metadata-var3": (
        "auth.prm.from-header",
        "auth.asm.order-with-path",
        "auth.asm.both-mechanisms",
    ),
    "auth/scope-from-www-authenticate": ("auth.scope.no-relation",),
    "auth/2025-03-26-oauth-metadata-backcompat": (
        "auth.legacy03.base-url",
        "auth.legacy03.metadata-first",
    ),
    "auth/2025-03-26-oauth-endpoint-fallback": ("auth.legacy03.default-paths",),
    "auth/resource-mismatch": ("auth.prm.resource-match",),
    "auth/authorization-server-migration": ("auth.reg.as-changed",),
    "auth/iss-not-advertised": ("auth.iss.absent-ok",),
    "auth/iss-supported-missing": ("auth.iss.required",),
    "auth/iss-unexpected": ("auth.iss.present",),
    "auth/iss-normalized": ("auth.iss.no-normalise",),
}
