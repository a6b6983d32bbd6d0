"""Tests of the digests that npm and uv report: exact packages only, and nothing of a project decides who is asked."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from mcphost.config.schema import ServerConfig
from mcphost.errors import RegistryError
from mcphost.host.servers.planned_digest import KnownDigests, plan_digest
from mcphost.registry import package_digests
from mcphost.registry.entries import RegistryPackage
from mcphost.registry.package_digests import PackageDigest, ask_digests, read_npm_answer, read_uv_answer
from tests.fakes.package_tools import INTEGRITY, OTHER_INTEGRITY, FakePackageTools

pytestmark = pytest.mark.anyio
ONE, TWO = "1" * 64, "2" * 64
DIGEST = "sha256:" + sha256(f"sha256:{ONE}\nsha256:{TWO}\n".encode()).hexdigest()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePackageTools:
    found = FakePackageTools(tmp_path)
    monkeypatch.setenv("PATH", f"{found.folder}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCPHOST_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    return found


async def ask(tmp_path: Path, *argv: str, **more: Any) -> PackageDigest:
    server = ServerConfig(name="s", command=argv[0], args=argv[1:], cwd=str(tmp_path / "project"), **more)
    return (await ask_digests({"s": server}))["s"]


async def test_npm_is_asked_for_the_integrity_of_the_exact_version(tmp_path: Path, tools: FakePackageTools) -> None:
    tools.answer_npm("@ada/files", "1.2.3")
    for argv in (("npx", "-y", "@ada/files@1.2.3", "--registry", "x"), ("npx", "--package=@ada/files@1.2.3", "files")):
        assert await ask(tmp_path, *argv) == PackageDigest(INTEGRITY)
    assert tools.started == ["npm view --json @ada/files@1.2.3 name version dist.integrity"] * 2


async def test_uv_is_asked_for_the_hashes_of_all_files_of_the_exact_version(
    tmp_path: Path, tools: FakePackageTools
) -> None:
    tools.answer_uv("ada-files", "1.2.0", TWO, ONE)
    for argv in (
        ("uvx", "ada_files==1.2"),
        ("uvx", "ada.files@1.2.0"),
        ("uvx", "--python", "3.12", "--from", "Ada_Files[web]==1.2.0", "run"),
    ):
        assert await ask(tmp_path, *argv) == PackageDigest(DIGEST, files=(ONE, TWO))
    assert tools.started[0] == (
        "uv pip compile - --no-deps --no-build --generate-hashes --no-header --no-annotate --refresh-package ada_files"
    )
    assert tools.read_input("uv") == "Ada_Files==1.2.0\n"


async def test_the_tools_run_in_an_empty_folder_of_the_users_own(
    tmp_path: Path, tools: FakePackageTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://elsewhere.example")
    monkeypatch.setenv("UV_INDEX_URL", "https://elsewhere.example")
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.chdir(tmp_path / "project")
    tools.answer_npm("files", "1.2.3")
    assert (await ask(tmp_path, "npx", "files@1.2.3")).digest
    folder, files, variables = tools.read_place("npm")
    assert folder.parent == tmp_path / "cache"
    assert files == {"package.json", "uv.toml"}
    assert not folder.exists()
    assert variables["HOME"] == str(tmp_path)
    assert not variables.keys() & {"NPM_CONFIG_REGISTRY", "UV_INDEX_URL", "API_KEY"}


OBSTACLES: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "no version": (("npx", "-y", "files"), {}, "does not name an exact version"),
    "a tag": (("npx", "-y", "files@latest"), {}, "does not name an exact version"),
    "a range": (("npx", "-y", "files@^1.2.3"), {}, "does not name an exact version"),
    "another package": (("npx", "files@npm:other@1.2.3"), {}, "does not name an exact version"),
    "two versions": (("uvx", "files==1.2.3,<2"), {}, "does not name an exact version"),
    "a wildcard": (("uvx", "files==1.2.*"), {}, "does not name an exact version"),
    "NuGet": (("dnx", "Files@1.2.3", "--yes"), {}, "NuGet"),
    "a registry": (("npx", "--registry=https://ada:pass@x.example", "files@1.2.3"), {}, "The option --registry of"),
    "a registry behind the package": (("npx", "--package", "files@1.2.3", "--registry", "x"), {}, "--registry"),
    "an index": (("uvx", "--index-url", "https://x.example", "files==1.2.3"), {}, "The option --index-url of"),
    "a second package of npx": (("npx", "-p", "files@1.2.3", "-p", "other", "files"), {}, "more than one package"),
    "a second version": (("npx", "--package=files@1.2.3", "--package=other@1.0.0", "x"), {}, "more than one package"),
    "a package beside it": (("uvx", "--with", "other", "files==1.2.3"), {}, "more than one package"),
    "a package beside another": (("uvx", "--from", "files==1.2.3", "-w", "other==1", "x"), {}, "more than one package"),
    "a variable": (("npx", "files@1.2.3"), {"env": {"npm_config_registry": "x"}}, "The variable npm_config_registry"),
    "a variable of a file": (
        ("uvx", "files==1.2.3"),
        {"env_file": "x", "env_file_digest": "d", "env_file_names": ("UV_INDEX",)},
        "The variable UV_INDEX",
    ),
    "a file that cannot be read": (("uvx", "files==1.2.3"), {"env_file": "x"}, "Its environment file"),
    "another path": (("uvx", "files==1.2.3"), {"env": {"PATH": "/tmp"}}, "The variable PATH"),
    "another home": (("uvx", "files==1.2.3"), {"env": {"HOME": "/tmp"}}, "The variable HOME"),
}


@pytest.mark.parametrize(("argv", "more", "reason"), OBSTACLES.values(), ids=OBSTACLES)
async def test_what_could_be_another_package_is_not_asked_about(
    tmp_path: Path, tools: FakePackageTools, argv: tuple[str, ...], more: dict[str, Any], reason: str
) -> None:
    answer = await ask(tmp_path, *argv, **more)
    assert reason in answer.problem
    assert "pass" not in answer.problem
    assert not answer.digest
    assert tools.started == []


async def test_settings_of_the_project_that_npx_would_read_leave_the_digest_out(
    tmp_path: Path, tools: FakePackageTools
) -> None:
    tools.answer_npm("files", "1.2.3")
    (tmp_path / ".npmrc").write_text("registry=https://own.example/")  # the user's own
    assert (await ask(tmp_path, "npx", "files@1.2.3")).digest
    (tmp_path / "project" / ".npmrc").write_text("registry=https://other.example/")
    (tmp_path / "project" / "part").mkdir()
    (tmp_path / "project" / "package.json").touch()
    nested = ServerConfig(name="s", command="npx", args=("files@1.2.3",), cwd=str(tmp_path / "project" / "part"))
    assert not (await ask_digests({"s": nested}))["s"].digest
    answer = await ask(tmp_path, "npx", "files@1.2.3")
    assert answer.problem.startswith(f"The file {tmp_path}/project/.npmrc can change")


async def test_servers_without_a_package_are_left_out(tools: FakePackageTools) -> None:
    servers = {
        "far": ServerConfig(name="far", url="https://mcp.example.com"),
        "own": ServerConfig(name="own", command="python", args=("-m", "own")),
        "box": ServerConfig(name="box", command="docker", args=("run", "ada/files:1.0")),
    }
    assert await ask_digests(servers) == {}
    assert tools.started == []


async def test_a_package_of_two_servers_is_asked_about_once(tmp_path: Path, tools: FakePackageTools) -> None:
    tools.answer_npm("files", "1.2.3")
    servers = {name: ServerConfig(name=name, command="npx", args=("files@1.2.3",), cwd=str(tmp_path)) for name in "ab"}
    assert await ask_digests(servers) == dict.fromkeys("ab", PackageDigest(INTEGRITY))
    assert len(tools.started) == 1


async def test_a_tool_that_fails_is_quoted(tmp_path: Path, tools: FakePackageTools) -> None:
    tools.answer("npm", "{}", error="npm error code E500\nnpm error 500 Not \x1b[2JFound.\nmore\n", code=1)
    answer = await ask(tmp_path, "npx", "files@1.2.3")
    assert answer == PackageDigest("", "npm ended with code 1: npm error code E500 | npm error 500 Not ␛[2JFound.")


async def test_a_tool_that_hangs_is_ended(
    tmp_path: Path, tools: FakePackageTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package_digests, "QUERY_TIMEOUT", 0.2)
    tools.hang("uv")
    assert await ask(tmp_path, "uvx", "files==1.2.3") == PackageDigest("", "uv did not end within 0.2 s.")


async def test_a_tool_that_prints_without_end_is_ended(tmp_path: Path, tools: FakePackageTools) -> None:
    tools.answer("npm", b"x" * 2_000_000)
    assert await ask(tmp_path, "npx", "files@1.2.3") == PackageDigest("", "npm printed more than 1 MB.")


async def test_a_missing_tool_is_named(
    tmp_path: Path, tools: FakePackageTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    answer = await ask(tmp_path, "npx", "files@1.2.3")
    assert answer == PackageDigest("", "npm was not started: The command 'npm' was not found.")


async def test_a_cache_folder_that_cannot_be_created_is_reported(
    tmp_path: Path, tools: FakePackageTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCPHOST_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert "No empty folder could be created" in (await ask(tmp_path, "npx", "files@1.2.3")).problem


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "null",
        "[]",
        f'"{INTEGRITY}"',
        "[" * 100_000,
        f'{{"name": "other", "version": "1.2.3", "dist.integrity": "{INTEGRITY}"}}',
        f'{{"name": "files", "version": "1.2.4", "dist.integrity": "{INTEGRITY}"}}',
        f'[{{"name": "files", "version": "1.2.3", "dist.integrity": "{INTEGRITY}"}}, {{}}]',
        '{"name": "files", "version": "1.2.3"}',
        '{"name": "files", "version": "1.2.3", "dist.integrity": {"a": 1}}',
        '{"name": "files", "version": "1.2.3", "dist.integrity": "sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA="}',
        f'{{"name": "files", "version": "1.2.3", "dist.integrity": "x{INTEGRITY}"}}',
        '{"error": {"code": "E404"}}',
    ],
)
def test_another_answer_of_npm_is_no_digest(printed: str) -> None:
    with pytest.raises(RegistryError):
        read_npm_answer(printed.encode(), "files", "1.2.3")


def test_of_several_digests_of_npm_the_strongest_is_taken() -> None:
    words = f"sha1-AAAAAAAAAAAAAAAAAAAAAAAAAAA= sha256-{'A' * 43}= {OTHER_INTEGRITY} sha384-{'A' * 64}"
    printed = f'[{{"name": "files", "version": "1.2.3", "dist.integrity": "{words}"}}]'
    assert read_npm_answer(printed.encode(), "files", "1.2.3+build") == OTHER_INTEGRITY


def test_options_of_the_users_configuration_in_the_output_of_uv_are_skipped() -> None:
    hashes = f" \\\n    --hash=sha256:{ONE} \\\n    --hash=sha256:{TWO}"
    printed = f"# note\n--index-url https://own.example/simple\nfiles==1.2{hashes}\n"
    assert read_uv_answer(printed.encode(), "files", "1.2.0") == PackageDigest(DIGEST, files=(ONE, TWO))


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "files==1.2.3\n",
        f"other==1.2.3 --hash=sha256:{ONE}\n",
        f"files==1.2.30 --hash=sha256:{ONE}\n",
        f"files==1.2.3rc1 --hash=sha256:{ONE}\n",
        f"files==1!1.2.3 --hash=sha256:{ONE}\n",
        f"files==1.2.3 --hash=sha256:{ONE}\nother==1 --hash=sha256:{TWO}\n",
        f"files==1.2.3 --hash=sha256:{ONE} --hash=md5:{'1' * 32}\n",
        f"files==1.2.3 --hash=sha256:{ONE[1:]}\n",
        f"files @ https://x.example/files.whl --hash=sha256:{ONE}\n",
        "files==1.2.3" + "".join(f" --hash=sha256:{number:064x}" for number in range(2_001)),
        "\xff\x00",
    ],
)
def test_another_answer_of_uv_is_no_digest(printed: str) -> None:
    with pytest.raises(RegistryError):
        read_uv_answer(printed.encode(), "files", "1.2.3")


async def test_a_file_that_cannot_be_downloaded_is_requested_once_for_all_reviews_of_a_plan(
    tmp_path: Path, tools: FakePackageTools
) -> None:
    tools.answer_npm("@ada/files", "1.2.3")
    server = ServerConfig(name="s", command="npx", args=("-y", "@ada/files@1.2.3"), cwd=str(tmp_path / "project"))
    stated = RegistryPackage("npm", "@ada/files", version="1.2.3", file_sha256=ONE)
    known: KnownDigests = {}
    plans = [await plan_digest(server, stated, tmp_path / "mcp.json", known, asks=asks) for asks in (True, True, False)]
    assert [one.split(" ")[1] for one in tools.started] == ["view", "pack"]
    assert plans[0] == plans[1] == plans[2]
    assert plans[0] is not None
    assert plans[0].mismatches == (
        "The SHA-256 given in the registry cannot be compared. npm downloaded no file of this package.",
    )
