"""Tests of the events that are held back while the program behind `mcphost pipe` reads too slowly."""

from mcphost.headless.held_back_events import MAX_HELD_BACK, HeldBackEvents
from mcphost.host.events import CatalogChanged, ResourceChanged, ServerLog, ToolToggled


def log_line(text: str) -> ServerLog:
    return ServerLog(server="files", source="server", level="info", text=text)


def test_a_server_whose_tools_change_again_and_again_leaves_one_event_without_names() -> None:
    held = HeldBackEvents()
    for number in range(10_000):
        assert held.add(CatalogChanged("files", added=tuple(f"tool_{number}_{one}" for one in range(10))))
    assert held.add(CatalogChanged("mail"))
    assert held.take() == (0, (CatalogChanged("files"), CatalogChanged("mail")))
    assert not held


def test_each_changed_resource_leaves_one_event_and_those_beyond_the_limit_are_counted() -> None:
    held = HeldBackEvents()
    for _ in range(3):
        assert held.add(ResourceChanged("files", "file:///a"))
    for number in range(MAX_HELD_BACK):
        assert held.add(ResourceChanged("files", f"file:///{number}"))
    dropped, kept = held.take()
    assert dropped == 1
    assert len(kept) == MAX_HELD_BACK
    assert kept[0] == ResourceChanged("files", "file:///a")


def test_log_lines_are_counted_and_other_events_must_be_written() -> None:
    held = HeldBackEvents()
    assert not held
    assert held.add(log_line("a"))
    assert held.add(log_line("b"))
    assert not held.add(ToolToggled("files", "read", on=False))
    assert held
    assert held.take() == (2, ())
