"""Tests for what the registry page shows about a server: its entry, and the guide in its repository."""

from collections.abc import Sequence

import pytest

from mcphost.llm.messages import ResourcePart
from mcphost.registry.install_guide import InstallGuide
from tests.fakes.registry_entries import package, server
from tests.fakes.registry_server import published, registry_server
from tests.screens.conftest import AppDriver
from tests.screens.real_program import Files
from tests.screens.sample_images import icon_data_url

pytestmark = pytest.mark.anyio

REPOSITORY = {"url": "https://github.com/ada/clock", "source": "github"}
CLOCK = server(
    "io.github.ada/clock",
    title="Clock",
    repository=REPOSITORY,
    websiteUrl="https://clock.example",
    icons=[{"src": icon_data_url()}],
    packages=[package("pypi", "clock-mcp")],
)


async def show_first_entry(driver: AppDriver) -> None:
    """Open the registry page, and wait for the details of its first entry."""
    await driver.pilot.press("f3", "b")
    await driver.until(lambda: "publisher" in driver.text(), "the first server")


@pytest.mark.req("market.metadata")
async def test_the_details_of_an_entry_name_its_popularity_and_origin_and_its_logo_is_drawn(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    entry = published(CLOCK)
    entry["_meta"]["io.example/stats"] = {"downloads": 12345, "stars": 77}
    with registry_server([entry]) as registry:
        files.write_servers()
        files.write_settings(f'[registry]\nurl = "{registry.url}"\n')
        async with files.open((120, 40), approved=False) as driver:
            await show_first_entry(driver)
            await driver.until(lambda: driver.app.screen.query_one("#icon").display, "the logo")
            lines = [" ".join(line.split()) for line in driver.text().splitlines()]
    shown = "\n".join(lines)
    for line in (
        "server io.github.ada/clock",
        "title Clock",
        "version 1.0.0, published 2025-10-01",
        "publisher GitHub account ada",
        "popularity 12,345 downloads, 77 stars (says the registry)",
        "repository https://github.com/ada/clock",
        "website https://clock.example",
        "What io.github.ada/clock does",
    ):
        assert line in shown


STEPS = "\n".join(f"{number}. Check that step {number} worked." for number in range(1, 200))
GUIDE = f"""# Set up the clock

## Dependencies
Python 3.11 and uv.

## API keys
CLOCK_API_KEY is required, CLOCK_REGION is optional.

## Steps
{STEPS}

## Troubleshooting
If the port is taken, set CLOCK_PORT.
"""


@pytest.mark.req("market.llms-install.sections")
async def test_each_section_of_a_guide_can_be_read_and_reaches_the_model(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(urls: Sequence[str]) -> InstallGuide:
        return InstallGuide(urls[0], GUIDE)

    monkeypatch.setattr("mcphost.host.servers.registry_installer.fetch_guide", fetch)
    with registry_server([published(CLOCK)]) as registry:
        files.write_servers()
        files.write_settings(f'[registry]\nurl = "{registry.url}"\n')
        async with files.open(approved=False) as driver:
            await show_first_entry(driver)
            await driver.pilot.press("l")
            await driver.until(lambda: "CLOCK_API_KEY is required" in driver.text(), "the beginning of the guide")
            await driver.pilot.press("end")
            await driver.until(lambda: "set CLOCK_PORT" in driver.text(), "the end of the guide")
            await driver.pilot.press("escape")
            await driver.until(lambda: "publisher" in driver.text(), "the list")
            await driver.pilot.press("m")
            await driver.until(lambda: driver.app.chat.attachments, "the attachment")
            (part,) = driver.app.chat.attachments.parts
    assert isinstance(part, ResourcePart)
    assert GUIDE in part.text
