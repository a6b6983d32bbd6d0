"""Tests of the digest in an install plan: npm and uv report it, and it is compared before anything is written."""

import base64
import json
from collections.abc import Iterator
from hashlib import sha256, sha512
from typing import Any

import pytest

from mcphost.config.lock_file import LOCK_FILE, LockDocument, LockedPackage, LockedServer, encode_lock
from tests.fakes.package_tools import INTEGRITY, OTHER_INTEGRITY
from tests.fakes.registry_entries import package, server
from tests.fakes.registry_server import RegistryServer, published, registry_server
from tests.flows.package_runners import PackageRunners, configured
from tests.flows.program import Program

WHEEL, SOURCE, OTHER = "1" * 64, "2" * 64, "3" * 64
OF_BOTH = "sha256:" + sha256(f"sha256:{WHEEL}\nsha256:{SOURCE}\n".encode()).hexdigest()
FILES = "io.github.ada/files"
CLOCK = "io.github.ada/clock"


@pytest.fixture
def runners(program: Program) -> PackageRunners:
    found = PackageRunners(program, "npx", "uvx")
    found.tools.answer_npm("@ada/files", "1.0.0")
    found.tools.answer_uv("ada-clock", "1.0.0", SOURCE, WHEEL)
    return found


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server([entry("1.0.0"), clock()]) as opened:
        yield opened


def entry(version: str) -> Any:
    """Return the registry's entry for a version of the npm server."""
    return published(server(FILES, version, packages=[package("npm", "@ada/files", version)]))


def clock(**more: Any) -> Any:
    """Return the registry's entry for the Python server; *more* adds to its package."""
    return published(server(CLOCK, packages=[package("pypi", "ada-clock", "1.0.0", **more)]))


def install(program: Program, registry: RegistryServer, *arguments: str, code: int = 0) -> str:
    return program.text("servers", "install", *arguments, "--registry", registry.url, code=code)


def refuse(program: Program, registry: RegistryServer, *arguments: str) -> str:
    """Run an installation that must fail, and return what it said."""
    done = program.run("servers", "install", *arguments, "--registry", registry.url, "--yes")
    assert done.returncode == 4, done.stderr.decode()
    return done.stderr.decode()


def write_lock(program: Program, digest: str, name: str = "@ada/files", kind: str = "npm") -> None:
    """Write a lock file that has a package of this name in version 1.0.0 with this digest."""
    locked = LockedPackage(type=kind, name=name, version="1.0.0", digest=digest)  # type: ignore[arg-type]
    document = LockDocument(servers={"other": LockedServer(command=("x",), package=locked)})
    (program.work / LOCK_FILE).write_bytes(encode_lock(document))


def test_the_digest_of_an_npm_package_is_in_the_plan(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    assert f"  digest: {INTEGRITY}\n" in install(program, registry, FILES, "--dry-run")
    assert runners.tools.started == ["npm view --json @ada/files@1.0.0 name version dist.integrity"]
    plan = json.loads(install(program, registry, FILES, "--dry-run", "--json"))
    assert (plan["digest"], plan["digest_problem"]) == (INTEGRITY, "")
    assert runners.started == []


def test_the_digest_of_a_python_package_is_that_of_all_its_files(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    assert f"  digest: {OF_BOTH}\n" in install(program, registry, CLOCK, "--yes")
    plan = json.loads(install(program, registry, CLOCK, "--dry-run", "--json", "--name", "second"))
    assert (plan["digest"], plan["digest_files"]) == (OF_BOTH, [WHEEL, SOURCE])
    assert runners.started == [["uvx", "ada-clock@1.0.0"]]


def test_an_unknown_digest_is_reported_and_stops_nothing(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    runners.tools.answer("npm", "", error="npm error code ENOTFOUND", code=1)
    said = install(program, registry, FILES, "--yes")
    assert "  digest: unknown. npm ended with code 1: npm error code ENOTFOUND.\n" in said
    assert configured(program, "files")["args"] == ["-y", "@ada/files@1.0.0"]


_UV_MISSING = """error: No solution found when resolving dependencies
  cause: Because there is no version of
      ada-clock==1.0.0 and you require ada-clock==1.0.0, we can conclude that your requirements are unsatisfiable.
"""
_UV_UNKNOWN_NAME = """error: No solution found when resolving dependencies
  cause: Because ada-clock was not found in the package registry and you require ada-clock==1.0.0, we can conclude \
that your requirements are unsatisfiable.
"""
_NPM_MISSING = "npm error code E404\nnpm error 404 No match found for version 1.0.0\nnpm error 404\n"


@pytest.mark.parametrize(
    ("server", "tool", "error", "code", "told"),
    [
        (FILES, "npm", _NPM_MISSING, 1, "npm found no version 1.0.0 of @ada/files."),
        (FILES, "npm", "", 0, "npm found no version 1.0.0 of @ada/files."),
        (CLOCK, "uv", _UV_MISSING, 1, "uv found no version 1.0.0 of ada-clock."),
        (CLOCK, "uv", _UV_UNKNOWN_NAME, 1, "uv found no version 1.0.0 of ada-clock."),
    ],
)
def test_a_version_that_does_not_exist_is_not_installed(
    program: Program, runners: PackageRunners, registry: RegistryServer, server: str, tool: str, error: str, code: int,
    told: str,
) -> None:  # fmt: skip
    runners.tools.answer(tool, "", error=error, code=code)
    planned = install(program, registry, server, "--dry-run")
    assert f"  digest: unknown. {told}\n" in planned
    assert f"  Warning: {told}\n" in planned
    said = refuse(program, registry, server)
    assert f"{told} Nothing was changed." in said
    assert "--accept-digest" in said
    assert not (program.home / "config" / "mcp.json").exists()
    assert runners.started == []
    assert "It works" in install(program, registry, server, "--yes", "--accept-digest")


def test_nobody_is_asked_about_a_package_that_may_come_from_elsewhere_or_that_no_tool_knows(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    (program.work / ".npmrc").write_text("registry=https://elsewhere.example/\n")
    said = install(program, registry, FILES, "--dry-run", "--scope", "project")
    assert f"digest: unknown. The file {program.work}/.npmrc can change where the package comes from." in said
    registry.entries.append(published(server("io.github.ada/dot", packages=[package("nuget", "Ada.Dot", "1.0.0")])))
    said = install(program, registry, "io.github.ada/dot", "--dry-run")
    assert "digest: unknown. No tool can be asked for the digest of a NuGet package." in said
    assert runners.tools.started == []


def test_a_file_digest_that_the_registry_states_must_be_that_of_a_file_of_the_version(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    registry.entries[1] = clock(fileSha256=OTHER)
    told = "The package index has no file of ada-clock 1.0.0 with the SHA-256 given in the registry."
    assert f"  Warning: {told}\n" in install(program, registry, CLOCK, "--dry-run")
    said = refuse(program, registry, CLOCK)
    assert f"{told} Nothing was changed." in said
    assert "--accept-digest" in said
    assert not (program.home / "config" / "mcp.json").exists()
    assert runners.started == []
    assert "It works" in install(program, registry, CLOCK, "--yes", "--accept-digest")
    registry.entries[1] = clock(fileSha256=SOURCE)
    assert told not in install(program, registry, CLOCK, "--yes", "--name", "second")


CONTENT = b"the file of a package"
OF_CONTENT = f"sha512-{base64.b64encode(sha512(CONTENT).digest()).decode()}"


def test_a_file_digest_that_the_registry_states_for_an_npm_package_is_compared_with_the_file(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    stated = {"fileSha256": sha256(CONTENT).hexdigest()}
    registry.entries.append(published(server("io.github.ada/safe", packages=[package("npm", "@ada/files", **stated)])))
    runners.tools.answer_npm("@ada/files", "1.0.0", OF_CONTENT)
    told = "The SHA-256 given in the registry cannot be compared. npm downloaded no file of this package."
    assert told in refuse(program, registry, "io.github.ada/safe")
    runners.tools.answer_npm_file(b"another file")
    assert "npm downloaded another file than the one whose" in refuse(program, registry, "io.github.ada/safe")
    runners.tools.answer_npm_file(CONTENT)
    plan = json.loads(install(program, registry, "io.github.ada/safe", "--dry-run", "--json"))
    assert (plan["digest"], plan["digest_files"]) == (OF_CONTENT, [stated["fileSha256"]])
    assert runners.tools.started[-1] == "npm pack --ignore-scripts @ada/files@1.0.0"
    assert runners.started == []
    assert "It works" in install(program, registry, "io.github.ada/safe", "--yes")


def test_an_npm_package_with_another_file_than_the_registry_states_is_refused(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    entry = server("io.github.ada/safe", packages=[package("npm", "@ada/files", fileSha256=OTHER)])
    registry.entries.append(published(entry))
    runners.tools.answer_npm("@ada/files", "1.0.0", OF_CONTENT)
    runners.tools.answer_npm_file(CONTENT)
    told = "The package index has no file of @ada/files 1.0.0 with the SHA-256 given in the registry."
    assert f"{told} Nothing was changed." in refuse(program, registry, "io.github.ada/safe")
    assert runners.started == []
    assert not (program.home / "config" / "mcp.json").exists()


@pytest.mark.parametrize(
    ("arguments", "locked", "name", "kind"),
    [((FILES,), OTHER_INTEGRITY, "@ada/files", "npm"), ((CLOCK,), f"sha256:{OTHER}", "Ada_Clock[web]", "pypi")],
    ids=["npm", "another spelling of a Python package"],
)
def test_a_digest_other_than_the_one_in_the_lock_file_of_the_project_is_refused(
    program: Program, runners: PackageRunners, registry: RegistryServer, arguments: tuple[str, ...], locked: str,
    name: str, kind: str,
) -> None:  # fmt: skip
    write_lock(program, locked, name, kind)
    said = refuse(program, registry, *arguments, "--scope", "project")
    assert f"1.0.0 differs from the one in {program.work}/mcphost.lock. Nothing was changed." in said
    assert f"anyway, repeat the command with {arguments[0]}@1.0.0 and --accept-digest." in said
    assert not (program.work / ".mcp.json").exists()
    assert runners.started == []
    install(program, registry, *arguments, "--yes")  # the user's own file has no lock file beside it


def test_the_digest_in_the_lock_file_of_the_project_is_no_difference(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    write_lock(program, INTEGRITY)
    install(program, registry, FILES, "--yes", "--scope", "project")
    assert "files" in json.loads((program.work / ".mcp.json").read_text())["mcpServers"]
    assert runners.tools.started


def test_a_lock_file_that_cannot_be_used_is_not_passed_over(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    (program.work / LOCK_FILE).write_text("{")
    said = refuse(program, registry, FILES, "--scope", "project")
    assert "The digest cannot be checked against the lock file. " in said
    assert runners.started == []


def test_the_digest_of_a_new_version_is_shown_and_compared_before_an_update(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    install(program, registry, FILES, "--yes")
    install(program, registry, CLOCK, "--yes")
    registry.entries += [
        entry("1.1.0"),
        published(server(CLOCK, "1.1.0", packages=[package("pypi", "ada-clock", "1.1.0", fileSha256=OTHER)])),
    ]
    runners.tools.answer_npm("@ada/files", "1.1.0", OTHER_INTEGRITY)
    runners.tools.answer_uv("ada-clock", "1.1.0", WHEEL)
    assert f"  digest: {OTHER_INTEGRITY}\n" in program.text("servers", "update", "files", "--yes")
    report = json.loads(program.text("servers", "update", "clock", "--dry-run", "--json"))["servers"][0]
    assert report["digest_files"] == [WHEEL]
    assert any("has no file of ada-clock 1.1.0" in one for one in report["warnings"])
    said = program.error("servers", "update", "clock", "--registry", registry.url, "--yes", code=4)
    assert "has no file of ada-clock 1.1.0" in said
    assert "anyway, repeat the command with clock and --accept-digest." in said
    assert configured(program, "clock")["args"] == ["ada-clock@1.0.0"]
    program.text("servers", "update", "clock", "--yes", "--accept-digest")
    assert configured(program, "clock")["args"] == ["ada-clock@1.1.0"]


def test_the_plan_and_the_lock_file_have_the_same_digest(
    program: Program, runners: PackageRunners, registry: RegistryServer
) -> None:
    plan = json.loads(install(program, registry, CLOCK, "--dry-run", "--json"))
    install(program, registry, CLOCK, "--yes", "--scope", "project")
    program.text("--mcp-config", ".mcp.json", "servers", "lock")
    locked = json.loads((program.work / LOCK_FILE).read_text())["servers"]["clock"]["package"]
    assert locked["digest"] == plan["digest"]
    assert len(runners.tools.started) == 3
