"""Values of planned variables and headers.

For display, the publisher's text is shown, and the user's secrets are hidden.
"""

from collections.abc import Iterable

from mcphost.config.published_values import without_keyring_names
from mcphost.config.secret_masking import mask_secrets
from mcphost.config.secrets import PlaintextSecret, make_secret
from mcphost.errors import RegistryError
from mcphost.redact import is_probable_secret
from mcphost.serialization import Struct

_IN_KEYRING = "${keyring:…}"
MAX_FILLED_LENGTH = 200_000
"""Maximum total length, in characters, of all values of a plan that contain variables, after these are filled in."""
_PART_LENGTH = 10
"""Characters added to the length of each part of a value, because even empty parts take time."""


class ValuePart(Struct, frozen=True):
    """A part of a value.

    - `is_typed`: True if the user enters the text, False if it is the publisher's text.
    - `is_secret`: whether the publisher declares the part secret.
    """

    text: str
    is_typed: bool = False
    is_secret: bool = False


class FilledLength:
    """Counter for the total length of a plan's values after their variables are filled in, with a limit.

    Without the limit, a publisher could repeat a variable with a long default thousands of times.
    """

    def __init__(self) -> None:
        self._left = MAX_FILLED_LENGTH

    def count(self, text: str) -> None:
        """Count a part of a value. Raises RegistryError if all parts together are too long."""
        self._left -= len(text) + _PART_LENGTH
        if self._left < 0:
            raise RegistryError(f"Its values have over {MAX_FILLED_LENGTH:,} characters with the variables filled in.")


class PlannedValue(Struct, frozen=True):
    """The value of a variable or header; `keys` is its place in the mcp.json entry, such as `("env", "API_KEY")`.

    Only values that the user enters are treated as secrets. Text from the publisher is always shown, even if the
    publisher marks it as secret.
    """

    keys: tuple[str, str]
    parts: tuple[ValuePart, ...]

    @property
    def text(self) -> str:
        """The complete value, with secrets in plain text."""
        return "".join(part.text for part in self.parts)

    @property
    def has_secret(self) -> bool:
        """Whether the user enters a part of the value, and the publisher declares this part secret."""
        return any(part.is_typed and part.is_secret for part in self.parts)

    @property
    def secrets(self) -> tuple[PlaintextSecret, ...]:
        """The secrets that the user entered, in reverse order of their positions in the value."""
        found: list[PlaintextSecret] = []
        end = 0
        for part in self.parts:
            start, end = end, end + len(part.text)
            if self._is_hidden(part):
                found.append(make_secret(self.keys, self.text, start, end))
        return tuple(reversed(found))

    @property
    def with_references(self) -> str:
        """The value with a reference to the keyring instead of each secret."""
        return "".join(_IN_KEYRING if self._is_hidden(part) else part.text for part in self.parts)

    @property
    def shown(self) -> str:
        """The value for display: the publisher's text is unchanged, and the user's text is masked."""
        return "".join(self._show(part) for part in self.parts)

    @property
    def published(self) -> str:
        """The value if it looks like a secret but contains no masked text of the user, otherwise "".

        In the value, references to the keyring replace the user's secrets. The text is recorded with the mcp.json
        entry, so that mcphost does not hide it later as a secret of the user.
        """
        if not all(self._is_hidden(part) or self._show(part) == part.text for part in self.parts):
            return ""
        text = without_keyring_names(self.with_references)
        name = self.keys[1]
        return text if mask_secrets(name, text) != text or is_probable_secret(name, text) else ""

    def _show(self, part: ValuePart) -> str:
        if self._is_hidden(part):
            return _IN_KEYRING
        return mask_secrets(self.keys[1], part.text) if part.is_typed else part.text

    def _is_hidden(self, part: ValuePart) -> bool:
        if not part.is_typed or not part.text or "${" in part.text:
            return False
        return part.is_secret or is_probable_secret(self.keys[1], self.text)


def planned_pairs(values: Iterable[PlannedValue]) -> dict[str, str]:
    """Return the text of each planned value, keyed by the name of its variable or header.

    The result is an object for the mcp.json entry, such as its `env`.
    """
    return {value.keys[1]: value.text for value in values}
