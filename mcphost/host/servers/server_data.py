"""Data stored for a server outside its configuration entry, and errors about secrets that could not be deleted."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from mcphost.config.schema import ServerConfig, ServerInput
from mcphost.errors import ConfigError
from mcphost.serialization import Struct


class SecretEntries(Protocol):
    """Interface to named secrets; `get`, `set` and `delete` raise McpHostError if the storage cannot be used."""

    def place_of(self, name: str) -> str:
        """Return where the secret is, or would be, stored: "keyring", "file" or "session" (in memory only)."""
        ...

    async def get(self, name: str) -> str | None:
        """Return the secret with this name, or None if there is none."""
        ...

    async def set(self, name: str, secret: str) -> None:
        """Store or replace the secret."""
        ...

    async def delete(self, name: str) -> None:
        """Remove the secret; a missing one is not an error."""
        ...


_PLACES = {"keyring": "keyring", "file": "secrets file", "session": "memory of this session"}


def describe_secret_place(place: str) -> str:
    """Return a phrase that names the place where secrets are stored.

    *place* is a value returned by `SecretEntries.place_of`.
    """
    return _PLACES[place]


class SecretDeletionError(ConfigError):
    """Raised when a change was saved or undone, but secrets could not be deleted; the message names them all."""


class UnreadableReferencesError(SecretDeletionError):
    """Raised when secrets were kept because a configuration file, which may refer to them, cannot be read."""


class ServerData(Struct, frozen=True, kw_only=True):
    """Data stored for a server outside its entry: names of secrets, inputs with a value, and an unpacked bundle.

    The values of password inputs are not in `inputs`, but stored with the secrets.
    """

    secrets: tuple[str, ...] = ()
    used: tuple[tuple[str, Path], ...] = ()
    """Secrets of the server that are kept, each with a configuration file that still refers to it."""

    inputs: tuple[ServerInput, ...] = ()
    bundle: Path | None = None

    def describe(self, inputs_file: Path, place_of: Callable[[str], str]) -> tuple[str, ...]:
        """Return a phrase for each secret, input value and bundle, such as "keyring: github-token".

        *inputs_file* is the file in which the values of the inputs are stored. *place_of* returns where a secret is
        stored; see `SecretEntries.place_of`.
        """
        folder = () if self.bundle is None else (str(self.bundle),)
        values = (f"{inputs_file}: input {one.id}" for one in self.inputs)
        return (*(f"{describe_secret_place(place_of(name))}: {name}" for name in self.secrets), *values, *folder)


def find_bundle_folder(server: ServerConfig, bundles: Path) -> Path | None:
    """Return the folder below *bundles* that contains a file named in the server's command line, or None."""
    root = bundles.absolute()
    for word in server.argv:
        path = Path(os.path.normpath(word.partition("=")[2] or word))
        if path.is_absolute() and path.is_relative_to(root) and path != root:
            return root / path.relative_to(root).parts[0]
    return None
