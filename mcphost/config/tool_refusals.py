"""Models whose provider refused tools, stored in the state folder so that a later run does not try again at once."""

import time
from collections.abc import Callable
from pathlib import Path

from mcphost.config.file_edits import lock_file_blocking, read_snapshot, replace_file
from mcphost.errors import ConfigError, MalformedMessage
from mcphost.paths import make_private_directory
from mcphost.serialization import Struct, decode, encode

REFUSALS_FILE = "tool-refusals.json"
REFUSAL_DAYS = 7
"""Days after which a refusal is forgotten, because the model may have been upgraded."""

MAX_REFUSALS = 100
"""Maximum number of models; the earliest refusal is dropped first."""

_MAX_BYTES = 262_144
_MAX_REASON_LENGTH = 300


class ToolRefusal(Struct, frozen=True, kw_only=True):
    """A refusal of tools by the provider of a model, with the provider's message.

    `api_base` is "" for the provider's own address; `refused_at` is in seconds since 1970.
    """

    model: str
    api_base: str = ""
    refused_at: float
    reason: str = ""


class _File(Struct, frozen=True):
    refusals: tuple[ToolRefusal, ...] = ()


class ToolRefusals:
    """Store of the refusals in a state folder; methods block, and may be called on any thread."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.time) -> None:
        """Create a store; *clock* returns seconds since 1970."""
        self._path = state_dir / REFUSALS_FILE
        self._clock = clock

    def load(self) -> tuple[ToolRefusal, ...]:
        """Return the refusals of the last REFUSAL_DAYS, newest first; nothing if the file is unusable."""
        try:
            refusals = decode(read_snapshot(self._path, _MAX_BYTES).content, _File).refusals
        except (OSError, ConfigError, MalformedMessage):
            return ()
        now = self._clock()
        recent = [one for one in refusals if 0 <= now - one.refused_at < REFUSAL_DAYS * 86_400]
        return tuple(sorted(recent, key=lambda one: -one.refused_at)[:MAX_REFUSALS])

    def find(self, model: str, api_base: str) -> ToolRefusal | None:
        """Return the refusal of a model at an address, or None."""
        key = _key(model, api_base)
        return next((one for one in self.load() if _key(one.model, one.api_base) == key), None)

    def record(self, model: str, api_base: str, reason: str) -> None:
        """Remember that the provider refuses tools for a model. Raises OSError or ConfigError."""
        refusal = ToolRefusal(
            model=model, api_base=api_base, refused_at=self._clock(), reason=reason[:_MAX_REASON_LENGTH]
        )
        self._replace(model, api_base, (refusal,))

    def forget(self, model: str, api_base: str) -> None:
        """Forget a refusal, so that tools are offered again. Raises OSError or ConfigError."""
        self._replace(model, api_base, ())

    def forget_all(self) -> int:
        """Forget every refusal; return their number. Raises OSError or ConfigError."""
        count = len(self.load())
        if count:
            with lock_file_blocking(self._path.with_suffix(".lock")):
                replace_file(self._path, encode(_File()), 0o600)
        return count

    def _replace(self, model: str, api_base: str, new: tuple[ToolRefusal, ...]) -> None:
        make_private_directory(self._path.parent)
        key = _key(model, api_base)
        with lock_file_blocking(self._path.with_suffix(".lock")):
            others = tuple(one for one in self.load() if _key(one.model, one.api_base) != key)
            replace_file(self._path, encode(_File((*new, *others)[:MAX_REFUSALS])), 0o600)


def _key(model: str, api_base: str) -> tuple[str, str]:
    return model, api_base.rstrip("/")
