"""Test that texts join the message and the hint of an error with a period if the message does not end with one."""

import ast

from tests.architecture.source_tree import module_name, module_paths, parse


def lines_without_period(tree: ast.Module) -> list[int]:
    """Return the numbers of the lines with an f-string that contains both the message and the hint of an error."""
    found: list[int] = []
    for text in ast.walk(tree):
        if not isinstance(text, ast.JoinedStr):
            continue
        values = [ast.unparse(part.value) for part in text.values if isinstance(part, ast.FormattedValue)]
        if any(value.replace(".hint", ".message") in values for value in values if ".hint" in value):
            found.append(text.lineno)
    return found


def test_no_text_joins_the_message_and_the_hint_of_an_error_itself() -> None:
    found = {module_name(path): lines for path in module_paths() if (lines := lines_without_period(parse(path)))}
    assert found == {}, "use str(error), or join_sentences"
