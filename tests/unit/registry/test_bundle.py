"""Tests for MCPB bundles (packaged servers): only the published file is opened, and only plain files are unpacked."""

import os
import socket
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from mcphost.errors import McpHostError, RegistryError, UsageError
from mcphost.registry import bundle as bundle_module
from mcphost.registry.bundle import MAX_FILES, extract, fetch_bundle
from mcphost.registry.bundle_manifest import BundleManifest, decode_manifest, plan_bundle
from mcphost.registry.entries import RegistryPackage
from mcphost.registry.plan_inputs import PlanInput, split_values
from mcphost.serialization import encode, replace
from tests.fakes.bundles import SERVER_FILE, bundle, linked_bundle, manifest, sha256_of
from tests.fakes.registry_server import registry_server

pytestmark = pytest.mark.anyio


def opened(tmp_path: Path, content: bytes) -> BundleManifest:
    (tmp_path / "x.mcpb").write_bytes(content)
    return extract(tmp_path / "x.mcpb", tmp_path / "target")


def test_files_are_written_for_the_user_only_and_the_manifest_is_read(tmp_path: Path) -> None:
    about = opened(tmp_path, bundle({"server/lib/x.py": "x = 1", "folder/": b""}))
    assert about.name == "notes"
    assert (tmp_path / "target" / SERVER_FILE).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in tmp_path.iterdir()) == ["target", "x.mcpb"]


def test_a_bundle_replaces_what_was_extracted_before(tmp_path: Path) -> None:
    opened(tmp_path, bundle({"old.txt": "old"}))
    opened(tmp_path, bundle({"new.txt": "new"}))
    assert not (tmp_path / "target" / "old.txt").exists()
    assert (tmp_path / "target" / "new.txt").read_text() == "new"


@pytest.mark.parametrize(
    "name",
    ["../evil", "a/../../evil", "/etc/evil", "a\\..\\evil", "C:/evil", "a//b", "./a", "a/./b", "a\x1bb", "a\u202eb",
     "x" * 300, "/".join("a" * 60), "server/MAIN.py"],
)  # fmt: skip
def test_a_file_with_an_unsafe_name_is_refused_and_nothing_stays(tmp_path: Path, name: str) -> None:
    with pytest.raises(RegistryError):
        opened(tmp_path, bundle({name: "x"}))
    assert [path.name for path in tmp_path.iterdir()] == ["x.mcpb"]


@pytest.mark.parametrize("target", ["/etc/passwd", "main.py"])
def test_a_link_is_refused(tmp_path: Path, target: str) -> None:
    with pytest.raises(RegistryError, match="link"):
        opened(tmp_path, linked_bundle(target))
    assert not (tmp_path / "target").exists()


def test_a_bundle_that_grows_too_much_is_refused_before_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(RegistryError, match="too much for its size"):
        opened(tmp_path, bundle({"zeros": b"\0" * 40_000_000}))


def test_a_file_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    content = bytearray(bundle({"zeros": b"\0" * 100_000}))
    for mark, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = content.rfind(mark)
        content[at + offset : at + offset + 4] = struct.pack("<L", 10)
    with pytest.raises(RegistryError):
        opened(tmp_path, bytes(content))
    assert not (tmp_path / "target").exists()


def test_too_many_folders_are_refused_before_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "MAX_FILES", 500)
    files: dict[str, bytes | str] = {f"{number}/{'/'.join('a' * 38)}/f": "" for number in range(20)}
    with pytest.raises(RegistryError, match="folders"):
        opened(tmp_path, bundle(files))
    assert [path.name for path in tmp_path.iterdir()] == ["x.mcpb"]


def test_a_second_directory_of_any_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, *[0] * 8, 1, *[0] * 6) + b"a"
    directory = entry * (MAX_FILES + 1)
    sizes = (MAX_FILES + 1, MAX_FILES + 1, len(directory), 0)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, *sizes)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(directory), 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(entry), 0, 0)

    def must_not_read(*_: Any) -> None:
        raise AssertionError("the directory was read")

    monkeypatch.setattr(zipfile, "ZipFile", must_not_read)
    with pytest.raises(RegistryError, match="ZIP64"):
        opened(tmp_path, directory + record + locator + end)


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "MAX_FILES", 500)
    with zipfile.ZipFile(tmp_path / "x.mcpb", "w") as archive:
        for number in range(501):
            archive.writestr(f"{number}", b"")
    with pytest.raises(RegistryError, match="files"):
        extract(tmp_path / "x.mcpb", tmp_path / "target")


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06", b"x" * 1_000, bundle()[:200], bundle()[:-30]])
def test_another_file_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RegistryError):
        opened(tmp_path, content)


def test_a_file_that_cannot_be_decompressed_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    content = bundle({"server/data": os.urandom(2_000)})
    start = content.index(b"server/data") + len("server/data")
    with pytest.raises(RegistryError, match="not a valid ZIP file"):
        opened(tmp_path, content[:start] + b"\xff" * 100 + content[start + 100 :])
    assert [path.name for path in tmp_path.iterdir()] == ["x.mcpb"]


def test_only_what_the_user_enters_in_a_bundles_variable_is_hidden(tmp_path: Path) -> None:
    about = manifest()
    about["server"]["mcp_config"]["env"] = {"UP_AUTH": "collector ${user_config.api_key}", "MODE_KEY": "fixed-value-1"}
    about["user_config"]["api_key"]["default"] = "hidden-by-the-publisher"
    opened_manifest = opened(tmp_path, bundle(about=about))
    folder = next(path.parents[1] for path in tmp_path.rglob("main.py"))
    assert plan_bundle(opened_manifest, folder, {"folders": ["/x"]}).entry["env"] == {"MODE_KEY": "fixed-value-1"}
    plan = plan_bundle(opened_manifest, folder, {"folders": ["/x"], "api_key": ["typed"]})
    assert plan.shown == {("env", "UP_AUTH"): "collector ${keyring:…}", ("env", "MODE_KEY"): "fixed-value-1"}
    assert [one.secret for one in plan.secrets["env", "UP_AUTH"]] == ["typed"]
    assert plan.secrets["env", "MODE_KEY"] == ()


def package(url: str, sha256: str) -> RegistryPackage:
    return RegistryPackage("mcpb", f"{url}/x.mcpb", file_sha256=sha256)


async def test_a_download_follows_redirects_and_must_have_the_published_digest(tmp_path: Path) -> None:
    content = bundle()
    with registry_server([]) as first, registry_server([]) as second:
        first.override = lambda _: (302, {"location": f"{second.url}/real.mcpb"}, b"")
        second.override = lambda _: (200, {}, content)
        found = await fetch_bundle(package(first.url, sha256_of(content)), tmp_path / "b", "notes")
        with pytest.raises(RegistryError, match="not the file that was published"):
            await fetch_bundle(package(first.url, "0" * 64), tmp_path / "b", "other")
    assert found.is_new
    assert [path.name for path in (tmp_path / "b").iterdir()] == [found.folder.name]
    found.discard()
    assert list((tmp_path / "b").iterdir()) == []


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (302, {"location": "http://bundles.example/x.mcpb"}, "plain http"),
        (302, {"location": "https://169.254.169.254/x.mcpb"}, "link-local"),
        (302, {"location": "https://10.0.0.1/x.mcpb"}, "private"),
        (302, {"location": "file:///etc/passwd"}, "not downloaded"),
        (302, {"location": "/again"}, "redirects more than"),
        (404, {}, "HTTP 404"),
    ],
)
async def test_a_download_from_an_unsafe_address_is_refused(
    tmp_path: Path, status: int, headers: dict[str, str], said: str
) -> None:
    with registry_server([]) as server:
        server.override = lambda _: (status, headers, b"")
        with pytest.raises(RegistryError, match=said):
            await fetch_bundle(package(server.url, "0" * 64), tmp_path / "b", "notes")
    assert list((tmp_path / "b").iterdir()) == []


async def test_a_download_connects_to_the_address_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[Any] = []
    look_up = socket.getaddrinfo

    def counted(host: Any, *args: Any, **more: Any) -> Any:
        looked_up.append(host.decode() if isinstance(host, bytes) else host)
        return look_up(host, *args, **more)

    content = bundle({})
    with registry_server([]) as server:
        server.override = lambda _: (200, {}, content)
        monkeypatch.setattr(socket, "getaddrinfo", counted)
        url = server.url.replace("127.0.0.1", "localhost")
        await fetch_bundle(package(url, sha256_of(content)), tmp_path / "b", "notes")
    assert looked_up.count("localhost") == 1


async def test_a_download_that_cannot_be_read_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with registry_server([]) as server:
        server.override = lambda _: (200, {"content-encoding": "br"}, b"x")
        with pytest.raises(RegistryError) as exc_info:
            await fetch_bundle(package(server.url, "0" * 64), tmp_path / "b", "notes")
    assert exc_info.value.message.endswith("answered in the encoding 'br'.")


async def test_a_download_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle_module, "MAX_BUNDLE_BYTES", 1_000)
    with registry_server([]) as server:
        server.override = lambda _: (200, {}, b"x" * 2_000)
        with pytest.raises(RegistryError, match="more than"):
            await fetch_bundle(package(server.url, "0" * 64), tmp_path / "b", "notes")
    assert list((tmp_path / "b").iterdir()) == []


def planned(tmp_path: Path, about: dict[str, Any], **values: str | list[str]) -> dict[str, Any]:
    folder = tmp_path / "bundle"
    (folder / "server").mkdir(parents=True, exist_ok=True)
    (folder / SERVER_FILE).write_text("")
    given = {name: [value] if isinstance(value, str) else value for name, value in values.items()}
    return plan_bundle(decode_manifest(encode(about)), folder, given).entry


def test_the_command_of_the_manifest_is_planned_with_the_values(tmp_path: Path) -> None:
    entry = planned(tmp_path, manifest(), folders=["/a", "/b"], api_key="k")
    folder = tmp_path / "bundle"
    assert entry["args"] == [f"{folder}/server/main.py", "--dir", "/a", "/b"]
    assert entry["env"] == {"PYTHONPATH": f"{folder}/server/lib", "API_KEY": "k"}
    assert entry["cwd"] == str(folder)
    assert "API_KEY" not in planned(tmp_path, manifest(), folders="/a")["env"]
    with pytest.raises(UsageError, match="folders needs a value"):
        planned(tmp_path, manifest())


def test_the_settings_that_are_asked_for_are_inputs(tmp_path: Path) -> None:
    folders, key = decode_manifest(encode(manifest())).inputs()
    assert (folders.place, folders.is_repeated, folders.format, folders.is_required) == (
        "argument", True, "filepath", True
    )  # fmt: skip
    assert (key.place, key.is_secret, key.is_required) == ("environment", True, False)


def config(**more: Any) -> dict[str, Any]:
    return {"type": "python", "entry_point": SERVER_FILE, "mcp_config": {"command": "python3", "args": [], **more}}


def own(**more: Any) -> dict[str, Any]:
    return manifest(server=config(**more), user_config={})


@pytest.mark.parametrize(
    "about",
    [
        own(command="bash"),
        own(command="npx"),
        own(command="/bin/sh"),
        own(command="../../bin/sh"),
        own(args=["${env:AWS_SECRET_ACCESS_KEY}"]),
        own(env={"TOKEN": "${keyring:github}"}),
        manifest(server=config(env={"T": "$${user_config.a}"}), user_config={"a": {"default": "{env:X}"}}),
        own(env={"LD_PRELOAD": "/tmp/evil.so"}),
        own(env={"PYTHONPATH": "${__dirname}/../evil"}),
        own(env={"A=B": "x"}),
        manifest(server={**config(), "type": "docker"}),
        own(args=["a\x1b[2J"]),
        manifest(compatibility={"platforms": ["win32"]}),
        manifest(
            server=config(args=["${user_config.a}"]),
            user_config={"a": {"type": "string", "sensitive": True, "required": True}},
        ),
        {"name": "x"},
    ],
)
def test_a_manifest_that_reaches_out_of_its_bundle_is_refused(tmp_path: Path, about: dict[str, Any]) -> None:
    with pytest.raises(RegistryError):
        planned(tmp_path, about)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("NODE_OPTIONS", value) for value in (
            "--require=/tmp/e.js", " --require=/tmp/e.js", "--require /tmp/e.js", "--require=evil", "-r evil",
            "--import=data:text/javascript,evil()", "data:text/javascript,evil", "--import=file:///tmp/e.mjs",
            "${__dirname}/x.js --require=/tmp/e.js", "--require=${__dirname}/../e.js",
            "--require=${__dirname}/a:/tmp/e", "'--x=${__dirname}/a --require=/tmp/e.js'",
        )),
        ("JAVA_TOOL_OPTIONS", "-javaagent:/tmp/e.jar=${__dirname}/a"),
        ("JDK_JAVA_OPTIONS", "@/tmp/arguments"),
        ("RUBYOPT", "-r/tmp/e"),
        ("GIT_SSH_COMMAND", "sh -c evil"),
        ("GIT_SSH_COMMAND", "evil|sh"),
        ("PYTHONPATH", "server/lib:/tmp/evil"),
        ("HTTPS_PROXY", "http://evil.example:3128"),
        ("NODE_TLS_REJECT_UNAUTHORIZED", "0"),
        ("HOME", "/tmp/evil"),
        ("XDG_CONFIG_HOME", "${HOME}/evil"),
    ],
)  # fmt: skip
def test_a_variable_of_a_bundle_never_reaches_out_of_it(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(RegistryError, match=f"The bundle sets {name} to"):
        planned(tmp_path, own(env={name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NODE_OPTIONS", "--max-old-space-size=4096 --require=${__dirname}/a.js --import ${__dirname}/b.mjs"),
        ("NODE_OPTIONS", "--no-warnings"),
        ("PYTHONPATH", "${__dirname}/lib:server/lib:"),
        ("TS_NODE_TRANSPILE_ONLY", "1"),
        ("HOME", "${HOME}"),
        ("NOTES_CONFIG_FILE", "${__dirname}/notes.toml"),
    ],
)
def test_a_variable_of_a_bundle_can_name_what_is_in_it(tmp_path: Path, name: str, value: str) -> None:
    assert planned(tmp_path, own(env={name: value}))["env"][name]


def test_only_the_user_sets_how_the_programs_of_a_bundle_connect(tmp_path: Path) -> None:
    settings = {"proxy": {"type": "string", "default": "http://evil.example:3128"}, "lib": {"required": True}}
    env = {"HTTPS_PROXY": "${user_config.proxy}", "PYTHONPATH": "${user_config.lib}"}
    about = manifest(server=config(env=env), user_config=settings)
    assert planned(tmp_path, about, lib="lib")["env"] == {"PYTHONPATH": "lib"}
    assert planned(tmp_path, about, lib="lib", proxy="http://proxy:1")["env"]["HTTPS_PROXY"] == "http://proxy:1"
    shown = plan_bundle(decode_manifest(encode(about)), tmp_path / "bundle", {}, show_missing=True)
    assert shown.entry["env"] == {"PYTHONPATH": "<lib>"}


def test_a_value_never_becomes_an_option(tmp_path: Path) -> None:
    about = manifest(server=config(args=["${user_config.q}"]), user_config={"q": {"type": "string"}})
    with pytest.raises(McpHostError, match="begins with a dash"):
        planned(tmp_path, about, q="--evil")


@pytest.mark.parametrize("place", ["args", "env", "command"])
def test_a_bundle_that_repeats_a_long_value_is_refused_before_it_is_filled_in(tmp_path: Path, place: str) -> None:
    text = "${user_config.a}" * 400
    given: dict[str, Any] = {"args": [text], "env": {"A": text}, "command": text}
    about = manifest(server=config(**{place: given[place]}), user_config={"a": {"default": "d" * 1_000}})
    with pytest.raises(RegistryError, match="200,000 characters"):
        planned(tmp_path, about)


def test_an_argument_of_a_bundle_can_have_two_settings(tmp_path: Path) -> None:
    settings = {"a": {"type": "string"}, "b": {"type": "string"}}
    about = manifest(server=config(args=["${user_config.a}:${user_config.b}"]), user_config=settings)
    assert planned(tmp_path, about, a="x", b="y")["args"] == ["x:y"]


def settings(**user_config: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest that passes each of the given settings as a variable, and `folders` as arguments."""
    env = {name.upper(): f"${{user_config.{name}}}" for name in user_config if name != "folders"}
    args = ["${__dirname}/server/main.py", "${user_config.folders}"] if "folders" in user_config else []
    return manifest(server=config(args=args, env=env), user_config=user_config)


def test_several_folders_may_be_the_default(tmp_path: Path) -> None:
    home = os.path.expanduser("~")
    folders = {"type": "directory", "multiple": True, "required": True, "default": ["${DESKTOP}", "${HOME}/Documents"]}
    entry = planned(tmp_path, settings(folders=folders))
    assert entry["args"][1:] == [f"{home}/Desktop", f"{home}/Documents"]
    assert planned(tmp_path, settings(folders=folders), folders="/own")["args"][1:] == ["/own"]
    (one,) = decode_manifest(encode(settings(folders=folders))).inputs()
    assert one.defaults == (f"{home}/Desktop", f"{home}/Documents")


@pytest.mark.parametrize(
    "setting",
    [
        {"type": "string", "default": ["a", "b"]},
        {"type": "string", "multiple": True, "default": ["a", {"b": 1}]},
        {"type": "string", "multiple": True, "default": ["a", "${OTHER}"]},
        {"type": "string", "multiple": True, "default": ["a", "b"], "sensitive": True},
        {"type": "string", "multiple": True, "default": ["a"] * 51},
    ],
)
def test_defaults_that_cannot_be_used_are_none(setting: dict[str, Any]) -> None:
    (one,) = decode_manifest(encode(settings(words=setting))).inputs()
    assert one.defaults == ()


def test_each_type_of_setting_is_checked_and_passed_on(tmp_path: Path) -> None:
    about = settings(
        name={"type": "string", "default": "Ada"},
        port={"type": "number", "default": 8080, "min": 1024, "max": 65535},
        ratio={"type": "number", "min": 0.5},
        debug={"type": "boolean", "default": False},
        log={"type": "file", "default": "${HOME}/log.txt"},
        unused={"type": "string"},
    )
    home = os.path.expanduser("~")
    plain = {"NAME": "Ada", "PORT": "8080", "DEBUG": "false", "LOG": f"{home}/log.txt"}
    assert planned(tmp_path, about)["env"] == plain
    changed = planned(tmp_path, about, port="1024", ratio="0.5", debug="TRUE", log="~/x", name="")["env"]
    assert changed == {"NAME": "", "PORT": "1024", "RATIO": "0.5", "DEBUG": "true", "LOG": f"{home}/x"}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("port", "80", "less than 1024"),
        ("port", "70000", "more than 65535"),
        ("port", "many", "not a number"),
        ("debug", "maybe", "not true or false"),
    ],
)
def test_a_value_that_does_not_fit_its_setting_is_refused(tmp_path: Path, name: str, value: str, said: str) -> None:
    about = settings(port={"type": "number", "min": 1024, "max": 65535}, debug={"type": "boolean"})
    with pytest.raises(UsageError, match=said):
        planned(tmp_path, about, **{name: value})


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("/a", ["/a"]),
        ("/a, /b,", ["/a", "/b"]),
        ('"/a, b", /c', ["/a, b", "/c"]),
        ('"/a', ['"/a']),
        (" , ", []),
    ],
)
def test_several_values_are_typed_with_commas(text: str, values: list[str]) -> None:
    one = PlanInput(name="folders", place="argument", is_repeated=True)
    assert split_values(one, text) == values
    assert split_values(replace(one, is_secret=True), text) == [text]
    assert split_values(replace(one, is_repeated=False), text) == [text]


def test_an_override_for_this_platform_replaces_the_command(tmp_path: Path) -> None:
    platform = "darwin" if sys.platform == "darwin" else "linux"
    overrides = {
        platform: {"args": ["${__dirname}/server/main.py", "${user_config.mode}"], "env": {"A": "here"}},
        "win32": {"command": "evil.exe"},
    }
    about = manifest(
        server=config(args=["x"], env={"A": "all", "B": "all"}, platform_overrides=overrides),
        user_config={"mode": {"type": "string", "default": "fast"}},
    )
    entry = planned(tmp_path, about)
    assert (entry["args"][1:], entry["env"]) == (["fast"], {"A": "here", "B": "all"})
