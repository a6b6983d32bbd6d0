"""File search for `@path` completion: a thread builds an index of the files and searches it."""

import os
from time import monotonic
from typing import TYPE_CHECKING

from mcphost.tui.widgets.completion_popup import CompletionItem, CompletionPopup

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.conversation.file_index import FileIndex, FileMatch
    from mcphost.host.host import Host

INDEX_AGE = 30.0
"""Age in seconds after which the index is rebuilt before the next search."""


class FileCompletion:
    """File search for a completion popup; at most one search runs at a time, in a thread."""

    def __init__(self, screen: "Screen[None]", popup: CompletionPopup, host: "Host") -> None:
        self._screen, self._popup, self._host = screen, popup, host
        self._index: FileIndex | None = None
        self._built_at = 0.0
        self._wanted: str | None = None
        self._is_running = False

    def search(self, query: str) -> None:
        """Search for files in the background; a previous search that has not started yet is dropped."""
        self._wanted = query
        if not self._is_running:
            self._is_running = True
            self._screen.run_worker(self._run, group="files")

    async def _run(self) -> None:
        import anyio.to_thread

        try:
            while (query := self._wanted) is not None:
                self._wanted = None
                typed, lines = _split_lines(query)
                roots = [root.path for root in (await self._host.roots.refresh()).available]
                found = await anyio.to_thread.run_sync(self._find, typed, roots)
                self._popup.show_files(query, [_make_item(one, lines) for one in found], self._cut)
        finally:
            self._is_running = False

    @property
    def _cut(self) -> str:
        return self._index.cut if self._index is not None else ""

    def _find(self, typed: str, roots: list[str]) -> "tuple[FileMatch, ...]":
        from mcphost.host.conversation.file_index import build_index, complete_typed_path

        if typed.startswith(("/", "~", "..")):
            return complete_typed_path(typed)
        if self._index is None or monotonic() - self._built_at > INDEX_AGE:
            self._index = build_index(os.getcwd(), roots)
            self._built_at = monotonic()
        return self._index.search(typed)


def _split_lines(query: str) -> tuple[str, str]:
    """Split `PATH:10-40` into the path and `:10-40`; the line range may be incomplete."""
    path, colon, lines = query.rpartition(":")
    is_range = colon and path and not lines.strip("0123456789-")
    return (path, f"{colon}{lines}") if is_range else (query, "")


def _make_item(found: "FileMatch", lines: str) -> CompletionItem:
    path = found.path
    folder, _, name = path.rstrip("/").rpartition("/")
    value = path if found.is_folder else f"{path}{lines.rstrip(':-')}"
    return CompletionItem("file", value, "", f"{name}{'/' if found.is_folder else lines}", folder)
