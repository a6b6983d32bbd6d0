"""Tests for sections of config.toml that apply while the host runs: what is marked, and when it takes effect."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from mcphost.errors import StoreError
from mcphost.store.large_results import ResultStore
from tests.fakes.model import ScriptedModel, text_round
from tests.unit.host.setup_host import apply_settings, config_change_detector, open_setup, write_settings

pytestmark = pytest.mark.anyio
MODEL = 'model = "openai/x"\n'


async def test_titles_are_written_by_a_model_from_the_change_on_and_no_longer_after_it(tmp_path: Path) -> None:
    answers = ("Paris.", "Rome.", "Capital of Italy", "Oslo.")
    model = ScriptedModel(*map(text_round, answers))
    write_settings(tmp_path, MODEL)
    async with open_setup(tmp_path, model_factory=lambda _: model) as (host, _):
        await host.conversation.send("what is the capital of france?")
        changes = await apply_settings(tmp_path, host, MODEL + "[titles]\nmode = 'model'\n")
        assert (changes.describe(), changes.needs_confirmation) == (("titles.mode = model",), True)
        assert host.conversation.title == "what is the capital of france?"
        host.conversation.open_new()
        await host.conversation.send("what is the capital of italy?")
        with anyio.fail_after(20):
            while host.conversation.title != "Capital of Italy":
                await anyio.lowlevel.checkpoint()
        await apply_settings(tmp_path, host, MODEL)
        host.conversation.open_new()
        await host.conversation.send("what is the capital of norway?")
        assert host.conversation.title == "what is the capital of norway?"
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("before", "after", "allows_more"),
    [
        ("", "[titles]\nmode = 'model'", True),
        ("[titles]\nmode = 'model'", "", False),
        ("", "[titles]\nmodel = 'other/x'", True),
        ("[titles]\nmodel = 'other/x'", "", False),
        ("", "[compaction]\nmodel = 'other/x'", True),
    ],
)
async def test_a_change_that_sends_more_or_loses_something_is_marked(
    tmp_path: Path, before: str, after: str, allows_more: bool
) -> None:
    write_settings(tmp_path, before)
    async with open_setup(tmp_path) as (host, _):
        write_settings(tmp_path, after)
        (change,) = (await config_change_detector(host).check()).settings
        assert change.allows_more is allows_more


async def test_new_limits_of_stored_results_count_for_the_next_result(tmp_path: Path) -> None:
    results = ResultStore(tmp_path / "results")
    write_settings(tmp_path, "")
    async with open_setup(tmp_path, results=results) as (host, _):
        await host.results.save("a" * 900_000)
        newest = await host.results.save("b" * 900_000)
        changes = await apply_settings(tmp_path, host, "[results]\nmegabytes = 1\n")
        assert (changes.describe(), changes.needs_confirmation) == (("results.megabytes = 1",), True)
        assert [one.deletes_results for one in changes.settings] == [True]
        with pytest.raises(StoreError, match="over the limit of 1 MB"):
            await host.results.save("c" * 1_000_001)
        await host.results.save("d" * 10)
        assert len(list((tmp_path / "results").iterdir())) == 2
        assert len(await host.results.read_all(newest)) == 900_000
        (raised,) = (await apply_settings(tmp_path, host, "[results]\nmegabytes = 2\n")).settings
        assert (raised.allows_more, raised.deletes_results) == (True, False)
        await host.results.save("e" * 1_000_001)
