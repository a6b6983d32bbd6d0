"""Which dialogs and forms are tested in a terminal, and by which test."""

import ast
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from tests.terminal.dialog_user import DialogUser


def drives_dialogs(*kinds: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a test that refuses each of these dialogs with Escape after typing ahead, and also accepts each."""

    def decorate(test: Callable[[DialogUser], None]) -> Callable[..., None]:
        @wraps(test)
        def driven(user: DialogUser) -> None:
            test(user)
            assert user.refused == set(kinds)
            assert user.agreed == set(kinds)

        return driven

    return decorate


def terminal_tests() -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return all test functions in this folder, keyed by `module.function`."""
    return {
        f"{path.stem}.{item.name}": item
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
        for item in ast.parse(path.read_text()).body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and item.name.startswith("test_")
    }


def driven_dialogs() -> list[str]:
    """Return the names of the dialog classes passed to `drives_dialogs` in this folder, read from the source code."""
    return [
        ast.unparse(kind)
        for test in terminal_tests().values()
        for decorator in test.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "drives_dialogs"
        for kind in decorator.args
    ]
