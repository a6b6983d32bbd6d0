"""Which dialogs and forms were driven in a terminal, and by which test; and the person who does it."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from tests.terminal.dialog_user import DialogUser

DRIVEN_DIALOGS: dict[type[Any], str] = {}
"""Each dialog, and the test that meets it in all three ways."""


def drives_dialogs(*kinds: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The test meets these: refuses each by Escape whatever was typed ahead, and agrees to each."""

    def known(test: Callable[[DialogUser], None]) -> Callable[..., None]:
        DRIVEN_DIALOGS.update(dict.fromkeys(kinds, test.__name__))

        @wraps(test)
        def driven(person: DialogUser) -> None:
            test(person)
            assert person.refused == set(kinds)
            assert person.agreed == set(kinds)

        return driven

    return known
