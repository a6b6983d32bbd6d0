"""Values in a server's entry that its publisher wrote, as recorded when the server was installed.

Such a value is shown in full, even if its name suggests that it is one of the user's secrets. The record
contains the text of each value. If the text in the entry is now different, the user has changed it, and it is
treated as the user's own value.
"""

import re
from collections.abc import Mapping
from typing import Any

from mcphost.serialization import Struct, as_object

REGISTRY_KEY = "registry"
"""Key under `mcphost` in an entry; its value is a record of the registry, with the server's name and version in it."""
PUBLISHED_KEY = "published"
"""Key in the value of REGISTRY_KEY; it contains the publisher's values by section ("env" or "headers") and name."""

_KEYRING = re.compile(r"\$\{keyring:[^}$]{0,200}\}")


class PublishedValues(Struct, frozen=True):
    """The environment variables and headers in a server's entry whose values its publisher wrote.

    They are recorded in the entry when the server is installed from a registry, so that mcphost shows these values in
    full, even if they look like secrets. `texts` contains the values by section ("env" or "headers") and name; it is
    empty if nothing was recorded.
    """

    texts: Mapping[str, Mapping[str, Any]] = {}

    def has(self, section: str, name: str, text: str) -> bool:
        """Return whether the variable or header *name* still has the text that the publisher wrote.

        *section* is "env" or "headers", and *text* is the current text.
        """
        values = self.texts.get(section)
        return values is not None and values.get(name) == without_keyring_names(text)


NOTHING_PUBLISHED = PublishedValues()


def read_published(own: Mapping[str, Any]) -> PublishedValues:
    """Read the published values from *own*, the "mcphost" object of a server's entry; omit invalid parts."""
    record = as_object(own.get(REGISTRY_KEY))
    published = as_object(record.get(PUBLISHED_KEY))
    texts = {section: values for section in ("env", "headers") if (values := as_object(published.get(section)))}
    return PublishedValues(texts) if texts else NOTHING_PUBLISHED


def without_keyring_names(text: str) -> str:
    """Return *text* with each reference to the keyring replaced by `${keyring:…}`, without the name.

    The names of keyring entries are chosen only when a server's entry is saved. Therefore, a text from before saving is
    compared with a saved text without these names.
    """
    return _KEYRING.sub("${keyring:…}", text) if "${" in text else text
