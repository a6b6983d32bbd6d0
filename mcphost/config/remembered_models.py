"""Recent and favorite models, and models whose providers rejected tools.

All are stored in the state folder. After a provider has rejected tools for a model, the model is used
without tools for REFUSAL_DAYS days, so that later runs do not have to send a request that will fail.
"""

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
_MAX_FILE_BYTES = 262_144


class RememberedModel(Struct, frozen=True, kw_only=True):
    """A model with its most recent parameters; `used_at` is in seconds since 1970, or 0 if it was never used."""

    config: ModelConfig
    is_favorite: bool = False
    used_at: float = 0

    @property
    def key(self) -> tuple[str, str]:
        """The model's name and API base URL, which together identify it."""
        return self.config.name, self.config.api_base


class _ModelsFile(Struct, frozen=True):
    models: tuple[RememberedModel, ...] = ()


class RememberedModels:
    """Store for recent and favorite models in the state folder. Its methods block and are thread-safe."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / MODELS_FILE

    def load(self) -> tuple[RememberedModel, ...]:
        """Return the favorites, then the other models, each most recently used first; () if the file is unusable."""
        try:
            content = read_snapshot(self._path, _MAX_FILE_BYTES).content
            models = decode(content, _ModelsFile).models
        except (OSError, ConfigError, MalformedMessage):
            return ()
        return _sort(models)

    def record_use(self, config: ModelConfig) -> None:
        """Record that a model is being used now, with its parameters. Raises OSError if this fails."""
        self._update(config, lambda model: replace(model, config=config, used_at=time.time()))

    def toggle_favorite(self, config: ModelConfig) -> bool:
        """Add a model to the favorites, or remove it from them; return whether it is now a favorite.

        Raises OSError if the change cannot be stored.
        """
        return self._update(config, lambda model: replace(model, is_favorite=not model.is_favorite)).is_favorite

    def _update(self, config: ModelConfig, change: Callable[[RememberedModel], RememberedModel]) -> RememberedModel:
        make_private_directory(self._path.parent)
        with lock_file_blocking(self._path.with_suffix(".lock")):
            models = {model.key: model for model in self.load()}
            model = RememberedModel(config=config)
            model = models[model.key] = change(models.get(model.key, model))
            kept = _sort(tuple(model for model in models.values() if model.is_favorite or model.used_at))
            replace_file(self._path, encode(_ModelsFile(kept)))
        return model


def _sort(models: tuple[RememberedModel, ...]) -> tuple[RememberedModel, ...]:
    """Return the models to store: favorites first, then the others, each group most recently used first."""
    newest = sorted(models, key=lambda model: -model.used_at)
    favorites = [model for model in newest if model.is_favorite]
    recent = [model for model in newest if not model.is_favorite]
    return (*favorites[:MAX_FAVORITES], *recent[:MAX_RECENT])


REFUSALS_FILE = "tool-refusals.json"
REFUSAL_DAYS = 7
"""Days after which a refusal is forgotten, because the model may have been upgraded."""

MAX_REFUSALS = 100
"""Maximum number of models; the earliest refusal is dropped first."""

_MAX_REASON_LENGTH = 300


class ToolRefusal(Struct, frozen=True, kw_only=True):
    """A record that a provider rejected tools for a model, with the provider's message.

    `reason` is the message. `api_base` is "" for the provider's default URL; `refused_at` is in seconds since 1970.
    """

    model: str
    api_base: str = ""
    refused_at: float
    reason: str = ""


class _RefusalsFile(Struct, frozen=True):
    refusals: tuple[ToolRefusal, ...] = ()


class ToolRefusals:
    """Store of the models whose providers rejected tools, in the state folder.

    Its methods block and are thread-safe.
    """

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        """Create a store; *clock* returns seconds since 1970."""
        self._path = state_dir / REFUSALS_FILE
        self._clock = clock

    def load(self) -> tuple[ToolRefusal, ...]:
        """Return the refusals of the last REFUSAL_DAYS days, newest first; () if the file is unusable."""
        try:
            refusals = decode(read_snapshot(self._path, _MAX_FILE_BYTES).content, _RefusalsFile).refusals
        except (OSError, ConfigError, MalformedMessage):
            return ()
        now = self._clock()
        recent = [one for one in refusals if 0 <= now - one.refused_at < REFUSAL_DAYS * 86_400]
        return tuple(sorted(recent, key=lambda one: -one.refused_at)[:MAX_REFUSALS])

    def find(self, model: str, api_base: str) -> ToolRefusal | None:
        """Return the refusal recorded for a model at an API base URL, or None if there is none."""
        key = _refusal_key(model, api_base)
        return next((one for one in self.load() if _refusal_key(one.model, one.api_base) == key), None)

    def record(self, model: str, api_base: str, reason: str) -> None:
        """Record that the provider rejects tools for a model at an API base URL.

        *reason* is the provider's message. Raises OSError if this fails.
        """
        refusal = ToolRefusal(
            model=model, api_base=api_base, refused_at=self._clock(), reason=reason[:_MAX_REASON_LENGTH]
        )
        self._replace(model, api_base, (refusal,))

    def forget(self, model: str, api_base: str) -> None:
        """Delete the record for a model at an API base URL, so that tools are offered to it again.

        Raises OSError if this fails.
        """
        self._replace(model, api_base, ())

    def forget_all(self) -> int:
        """Delete all records and return how many there were. Raises OSError if this fails."""
        count = len(self.load())
        if count:
            with lock_file_blocking(self._path.with_suffix(".lock")):
                replace_file(self._path, encode(_RefusalsFile()))
        return count

    def _replace(self, model: str, api_base: str, new: tuple[ToolRefusal, ...]) -> None:
        make_private_directory(self._path.parent)
        key = _refusal_key(model, api_base)
        with lock_file_blocking(self._path.with_suffix(".lock")):
            others = tuple(one for one in self.load() if _refusal_key(one.model, one.api_base) != key)
            replace_file(self._path, encode(_RefusalsFile((*new, *others)[:MAX_REFUSALS])))


def _refusal_key(model: str, api_base: str) -> tuple[str, str]:
    return model, api_base.rstrip("/")
