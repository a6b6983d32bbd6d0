"""Tests that a server from a registry with many entries is installed and run with the real npx and uvx."""

import json

import pytest

from tests.fakes.real_packages import real_entry, serve_real_package
from tests.flows.package_runners import configured
from tests.flows.program import Program

SECONDS = 120
NAME = "io.github.ada/real"


@pytest.mark.req("market.browse", "market.one-click", "market.update-remove")
@pytest.mark.parametrize(("kind", "command", "answer"), [("npm", "npx -y", "node"), ("pypi", "uvx", "python")])
def test_a_package_is_found_planned_installed_called_updated_and_removed(
    program: Program, kind: str, command: str, answer: str
) -> None:
    with serve_real_package(kind, program.home) as (registry, path):
        program.env["PATH"] = path
        asked = ("--registry", registry.url)
        found = json.loads(program.text("servers", "search", "--json", *asked))["servers"]
        assert len(found) >= 30
        assert NAME in program.text("servers", "search", "real", *asked)
        plan = json.loads(program.text("servers", "install", NAME, "--from", kind, "--dry-run", "--json", *asked))
        assert plan["command"][-3:] == ["real-mcp@1.0.0", "serve", "--fast=yes"]
        assert plan["digest"].startswith("sha512-" if kind == "npm" else "sha256:"), plan["digest_problem"]
        said = program.text("servers", "install", NAME, "--from", kind, "--yes", *asked, seconds=SECONDS)
        assert f"runs: {command} real-mcp@1.0.0 serve --fast=yes" in said
        assert "1 tool" in said
        assert program.text("call", "real", "say", seconds=SECONDS).strip() == f"said by {answer}"

        registry.entries.append(real_entry("1.1.0"))
        said = program.text("servers", "update", "real", "--yes", seconds=SECONDS)
        assert "1.0.0 -> 1.1.0" in said
        assert configured(program, "real")["mcphost"]["registry"]["version"] == "1.1.0"
        assert "real 1.1.0" in program.text("servers", "check", "real", seconds=SECONDS)

        program.text("servers", "remove", "real", "--yes")
        assert json.loads(program.text("servers", "list", "--json"))["servers"] == []
