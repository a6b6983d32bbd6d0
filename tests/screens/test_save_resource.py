"""Tests for saving a resource to a new file from the resources screen."""

import base64
from pathlib import Path

import pytest
from textual.widgets import Input

from mcphost.protocol.resources import ReadResourceResult, Resource, ResourceContents
from mcphost.tui.screens.resources import ResourcesScreen, suggest_name
from tests.screens.conftest import AppDriver, Run

pytestmark = pytest.mark.anyio
README = "# A project\n\nIt reads files.\n"


async def open_form(driver: AppDriver) -> Input:
    await driver.pilot.press("f4")
    await driver.until(lambda: "file:///project/README.md" in driver.text(), "the list")
    await driver.pilot.press("s")
    await driver.until(lambda: "Save the resource" in driver.text() and driver.app.screen.query("#file"), "the form")
    return driver.app.screen.query_one("#file", Input)


async def test_a_resource_is_saved_to_a_new_file_and_replaces_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with run(size=(120, 40)) as driver:
        field = await open_form(driver)
        assert field.value == "README.md"
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ResourcesScreen), "the end of the form")
        saved = tmp_path / "README.md"
        assert driver.has_notified(f"Wrote {saved}.")
        assert saved.read_text() == README
        assert saved.stat().st_mode & 0o777 == 0o600
        saved.write_text("changed by the user")
        await open_form(driver)
        await driver.pilot.press("enter")
        await driver.until(lambda: "exists" in driver.text(), "the refusal")
        assert saved.read_text() == "changed by the user"


async def test_binary_contents_are_saved_as_they_are(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = bytes(range(256))

    async def read(server: str, uri: str, *, bypass_cache: bool = False) -> ReadResourceResult:
        del server, bypass_cache
        blob = base64.b64encode(data).decode()
        return ReadResourceResult(contents=(ResourceContents(uri=uri, mime_type="image/png", blob=blob),))

    async with run(size=(120, 40)) as driver:
        driver.host.features.read_resource = read
        field = await open_form(driver)
        field.value = "one.bin"
        await driver.pilot.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, ResourcesScreen), "the end of the form")
        assert (tmp_path / "one.bin").read_bytes() == data


@pytest.mark.parametrize("blobs", [("!",), ("", "")], ids=["no base64", "two parts"])
async def test_what_cannot_be_one_file_is_reported_and_nothing_is_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blobs: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def read(server: str, uri: str, *, bypass_cache: bool = False) -> ReadResourceResult:
        del server, bypass_cache
        contents = tuple(ResourceContents(uri=uri, mime_type="image/png", blob=blob) for blob in blobs)
        return ReadResourceResult(contents=contents)

    async with run(size=(120, 40)) as driver:
        driver.host.features.read_resource = read
        await open_form(driver)
        await driver.pilot.press("enter")
        told = "2 parts" if len(blobs) == 2 else "not valid base64"
        await driver.until(lambda: told in driver.text(), "the reason")
        assert not (tmp_path / "README.md").exists()


@pytest.mark.parametrize(
    ("uri", "mime_type", "name"),
    [
        ("file:///a/My notes.txt", "text/plain", "My-notes.txt"),
        ("demo://notes", "text/markdown", "notes.md"),
        ("x://h/../../.bashrc", "", "bashrc"),
        ("x://h/..%2f..%2fetc?a=/b", "", "2f..-2fetc"),
        ("x://h/\u202eevil\x1b[2J", "", "evil-2J"),
        ("x:///", "application/json", "resource.json"),
    ],
)
def test_the_suggested_name_is_plain_and_has_no_folder(uri: str, mime_type: str, name: str) -> None:
    assert suggest_name(Resource(uri=uri, name="", mime_type=mime_type)) == name
