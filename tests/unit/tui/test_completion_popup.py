"""Tests of the completion popup: what matches the typed text, and that long names from servers stay cheap."""

import pytest

from mcphost.tui.widgets.completion_popup import CompletionItem, find_matches


def resource(title: str, uri: str = "x:1") -> CompletionItem:
    return CompletionItem("resource", uri, "server", title, "")


@pytest.mark.parametrize(
    ("needle", "is_found"),
    [("note", True), ("file", True), ("nfa", True), ("x:7", True), ("otes", True), ("fn", False), ("nz", False)],
)
def test_a_resource_is_found_by_a_part_or_by_an_abbreviation_of_its_title(needle: str, is_found: bool) -> None:
    assert bool(find_matches([resource("Notes of a file", "x:7")], needle)) is is_found


def test_titles_that_begin_with_the_typed_text_come_first() -> None:
    items = [resource("A long note"), resource("My note"), resource("Note"), resource("N o t e")]
    assert [item.title for item in find_matches(items, "note")] == ["Note", "A long note", "My note", "N o t e"]


def test_only_the_beginning_of_a_long_title_or_uri_is_compared() -> None:
    long = resource(f"{'a' * 1_000} needle", f"x:{'b' * 1_000}needle")
    assert find_matches([long], "needle") == []
    assert find_matches([long], "aaaa") == [long]
    assert find_matches([long], "x:bb") == [long]
