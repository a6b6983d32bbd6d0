"""Tests for the file of recent and favourite models: order, limits, parameters and damaged files."""

from pathlib import Path

from mcphost.config.remembered_models import (
    MAX_RECENT,
    MAX_REFUSALS,
    MODELS_FILE,
    REFUSAL_DAYS,
    REFUSALS_FILE,
    RememberedModels,
    ToolRefusals,
)
from mcphost.config.schema import ModelConfig


def remembered_names(models: RememberedModels) -> list[str]:
    return [model.config.name for model in models.load()]


def test_the_newest_comes_first_and_favourites_before_all(tmp_path: Path) -> None:
    models = RememberedModels(tmp_path)
    for name in ("a/one", "a/two", "a/three"):
        models.record_use(ModelConfig(name=name))
    assert remembered_names(models) == ["a/three", "a/two", "a/one"]
    assert models.toggle_favorite(ModelConfig(name="a/one")) is True
    assert remembered_names(models) == ["a/one", "a/three", "a/two"]
    assert models.toggle_favorite(ModelConfig(name="a/one")) is False
    assert remembered_names(models) == ["a/three", "a/two", "a/one"]


def test_parameters_are_those_of_the_last_use_and_an_address_makes_another_model(tmp_path: Path) -> None:
    models = RememberedModels(tmp_path)
    models.record_use(ModelConfig(name="openai/x", temperature=0.1))
    models.record_use(ModelConfig(name="openai/x", temperature=0.2, headers={"X-A": "${env:A}"}))
    models.record_use(ModelConfig(name="openai/x", api_base="http://127.0.0.1:1"))
    assert [(model.config.temperature, model.config.api_base) for model in models.load()] == [
        (None, "http://127.0.0.1:1"),
        (0.2, ""),
    ]
    assert (tmp_path / MODELS_FILE).stat().st_mode & 0o777 == 0o600


def test_only_the_newest_are_kept_but_every_favourite(tmp_path: Path) -> None:
    models = RememberedModels(tmp_path)
    models.toggle_favorite(ModelConfig(name="a/best"))
    for number in range(MAX_RECENT + 3):
        models.record_use(ModelConfig(name=f"a/{number}"))
    names = remembered_names(models)
    assert names[0] == "a/best"
    assert names[1:] == [f"a/{number}" for number in reversed(range(3, MAX_RECENT + 3))]


def test_a_model_that_is_neither_used_nor_favourite_is_forgotten(tmp_path: Path) -> None:
    models = RememberedModels(tmp_path)
    models.toggle_favorite(ModelConfig(name="a/b"))
    models.toggle_favorite(ModelConfig(name="a/b"))
    assert models.load() == ()


def test_a_damaged_file_is_empty_and_replaced_by_the_next_use(tmp_path: Path) -> None:
    models = RememberedModels(tmp_path)
    for damage in (b"{", b'{"models": [{"config": {"name": 1}}]}', b"[" * 5_000, b"x" * 300_000):
        (tmp_path / MODELS_FILE).write_bytes(damage)
        assert models.load() == ()
    models.record_use(ModelConfig(name="a/b"))
    assert remembered_names(models) == ["a/b"]


def test_a_refusal_is_found_by_the_model_and_its_address(tmp_path: Path) -> None:
    refusals = ToolRefusals(tmp_path)
    refusals.record("openai/x", "http://127.0.0.1:1/v1/", "no tools")
    refusals.record("openai/y", "", "r" * 1_000)
    found = ToolRefusals(tmp_path).find("openai/x", "http://127.0.0.1:1/v1")
    assert found is not None
    assert found.reason == "no tools"
    assert refusals.find("openai/x", "") is None
    assert refusals.find("openai/x", "http://127.0.0.1:2/v1") is None
    assert len(refusals.load()[0].reason) == 300
    assert (tmp_path / REFUSALS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_refusal_is_forgotten_after_a_week_or_on_request(tmp_path: Path) -> None:
    now = 1_000_000.0
    refusals = ToolRefusals(tmp_path, lambda: now)
    refusals.record("a/b", "", "")
    refusals.record("a/c", "", "")
    refusals.forget("a/c", "")
    now += REFUSAL_DAYS * 86_400 - 1
    assert [one.model for one in refusals.load()] == ["a/b"]
    now += 1
    assert refusals.load() == ()
    refusals.record("a/d", "", "")
    refusals.record("a/e", "", "")
    assert refusals.forget_all() == 2
    assert refusals.load() == ()
    assert ToolRefusals(tmp_path / "none").forget_all() == 0


def test_the_newest_refusals_are_kept(tmp_path: Path) -> None:
    now = 1_000_000.0
    refusals = ToolRefusals(tmp_path, lambda: now)
    for number in range(MAX_REFUSALS + 2):
        now += 1
        refusals.record(f"a/{number}", "", "")
    names = [one.model for one in refusals.load()]
    assert len(names) == MAX_REFUSALS
    assert names[0] == f"a/{MAX_REFUSALS + 1}"


def test_a_clock_that_was_set_back_forgets_the_refusal(tmp_path: Path) -> None:
    ToolRefusals(tmp_path, lambda: 2_000_000.0).record("a/b", "", "")
    assert ToolRefusals(tmp_path, lambda: 1_000_000.0).load() == ()


def test_a_damaged_file_is_empty_and_replaced_by_the_next_refusal(tmp_path: Path) -> None:
    refusals = ToolRefusals(tmp_path)
    for damage in (b"{", b'{"refusals": [{"model": 1}]}', b"[" * 5_000, b"x" * 300_000):
        (tmp_path / REFUSALS_FILE).write_bytes(damage)
        assert refusals.load() == ()
    refusals.record("a/b", "", "")
    assert [one.model for one in refusals.load()] == ["a/b"]
