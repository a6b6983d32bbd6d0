"""Tests for the file of recent and favourite models: order, bounds, parameters and damage."""

from pathlib import Path

from mcphost.config.remembered_models import MAX_RECENT, MODELS_FILE, RememberedModels
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
