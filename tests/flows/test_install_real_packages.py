"""Servers of a registry run by the real npx and uvx, from packages on this machine."""

import pytest

from tests.fakes.real_packages import serve_real_package
from tests.flows.package_runners import configured
from tests.flows.program import Program

SECONDS = 120


def install(program: Program, registry: str, kind: str) -> str:
    """Install and try real-mcp, list its tools, and remove it again."""
    said = program.text(
        "servers", "install", "io.github.ada/real", "--from", kind, "--registry", registry, "--yes", seconds=SECONDS
    )
    assert configured(program, "real")["mcphost"]["registry"]["version"] == "1.0.0"
    assert "serve --fast=yes" in program.text("tools", "real", seconds=SECONDS)
    program.text("servers", "remove", "real", "--yes")
    return said


@pytest.mark.parametrize(("kind", "command"), [("npm", "npx -y"), ("pypi", "uvx")])
def test_a_package_is_installed_with_its_real_runner(program: Program, kind: str, command: str) -> None:
    with serve_real_package(kind, program.home) as (registry, path):
        program.env["PATH"] = path
        said = install(program, registry.url, kind)
    assert f"runs: {command} real-mcp@1.0.0 serve --fast=yes" in said
    assert "1 tool" in said
