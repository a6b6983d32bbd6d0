"""Models that the user used or marked as favorites, stored with their parameters in the state folder."""

import time
from collections.abc import Callable
from pathlib import Path

from mcphost.config.file_edits import lock_file_blocking, read_snapshot, replace_file
from mcphost.config.schema import ModelConfig
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode, replace

MODELS_FILE = "models.json"
MAX_RECENT = 12
"""Maximum number of models that are not favorites; the least recently used one is dropped first."""

MAX_FAVORITES = 100
_MAX_BYTES = 262_144


class RememberedModel(Struct, frozen=True, kw_only=True):
    """A model with its last parameters; `used_at` is in seconds since 1970, 0 if it was never used."""

    config: ModelConfig
    is_favorite: bool = False
    used_at: float = 0

    @property
    def key(self) -> tuple[str, str]:
        """The model's name and API base URL, which identify it."""
        return self.config.name, self.config.api_base


class _File(Struct, frozen=True):
    models: tuple[RememberedModel, ...] = ()


class RememberedModels:
    """Store of the remembered models in a state folder; methods block, and may be called on any thread."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / MODELS_FILE

    def load(self) -> tuple[RememberedModel, ...]:
        """Return favorites, then other models, most recently used first; nothing if the file is unusable."""
        try:
            content = read_snapshot(self._path, _MAX_BYTES).content
            models = decode(content, _File).models
        except (OSError, ConfigError, MalformedMessage):
            return ()
        return _sort(models)

    def record_use(self, config: ModelConfig) -> None:
        """Remember that a model is being used now, with its parameters. Raises OSError or ConfigError."""
        self._update(config, lambda model: replace(model, config=config, used_at=time.time()))

    def toggle_favorite(self, config: ModelConfig) -> bool:
        """Add a model to the favorites or remove it from them; return whether it is a favorite now.

        Raises OSError or ConfigError.
        """
        return self._update(config, lambda model: replace(model, is_favorite=not model.is_favorite)).is_favorite

    def _update(self, config: ModelConfig, change: Callable[[RememberedModel], RememberedModel]) -> RememberedModel:
        make_private_directory(self._path.parent)
        with lock_file_blocking(self._path.with_suffix(".lock")):
            models = {model.key: model for model in self.load()}
            model = RememberedModel(config=config)
            model = models[model.key] = change(models.get(model.key, model))
            kept = _sort(tuple(model for model in models.values() if model.is_favorite or model.used_at))
            replace_file(self._path, encode(_File(kept)), 0o600)
        return model


def _sort(models: tuple[RememberedModel, ...]) -> tuple[RememberedModel, ...]:
    """Return the models to keep: favorites, then others, each group most recently used first."""
    newest = sorted(models, key=lambda model: -model.used_at)
    favorites = [model for model in newest if model.is_favorite]
    recent = [model for model in newest if not model.is_favorite]
    return (*favorites[:MAX_FAVORITES], *recent[:MAX_RECENT])
