"""Tests for finding the package that the command line of a server runs."""

import pytest

from mcphost.registry.package_grammar import find_package


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("npx -y @ada/files@1.2.3 /srv", ("npm", "@ada/files", "1.2.3", "")),
        ("npx @ada/files", ("npm", "@ada/files", "", "")),
        ("npx --registry https://npm.example.com files@latest", ("npm", "files", "latest", "")),
        ("npx -y -p files@1.0.0 serve", ("npm", "files", "1.0.0", "")),
        ("npx --package=files@1.0.0 serve", ("npm", "files", "1.0.0", "")),
        ("/usr/bin/npx.cmd files@2.0.0", ("npm", "files", "2.0.0", "")),
        ("uvx mcp-server-time@1.0 --zone utc", ("pypi", "mcp-server-time", "1.0", "")),
        ("uvx --python 3.12 mcp[cli]==1.2", ("pypi", "mcp[cli]", "1.2", "")),
        ("uvx -p 3.12 --from files==3 serve", ("pypi", "files", "3", "")),
        ("dnx Ada.Files@0.4.0-beta --yes", ("nuget", "Ada.Files", "0.4.0-beta", "")),
        ("dnx Ada.Files --version 0.5.0 --yes", ("nuget", "Ada.Files", "0.5.0", "")),
        ("docker run -i --rm -e TOKEN ada/files:1.0", ("oci", "ada/files", "1.0", "")),
        (f"docker run -i ghcr.io/ada/files@sha256:{'a' * 64}", ("oci", "ghcr.io/ada/files", "", f"sha256:{'a' * 64}")),
    ],
)
def test_a_package_is_found_with_its_version(command: str, package: tuple[str, str, str, str]) -> None:
    found = find_package(command.split())
    assert found is not None
    assert (found.type, found.name, found.version, found.digest) == package


@pytest.mark.parametrize(
    "command",
    [
        "node server.js",
        "npx",
        "npx -y",
        "npx ${PACKAGE}",
        "docker start x",
        "docker run -e",
        "uvx ./local",
        "npx --from=",
    ],
)
def test_no_package_is_made_up(command: str) -> None:
    assert find_package(command.split()) is None
