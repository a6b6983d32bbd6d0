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
"""Maximum age in seconds of the index that a search uses."""
_MIN_AGE = 1.0
_AGE_PER_BUILD = 20
"""An index that was built quickly is rebuilt sooner: after this many times the duration of building it."""
_AGE_PER_BUILD_IF_EMPTY = 2
"""Replaces _AGE_PER_BUILD for a search that found nothing, perhaps because the file is new."""


class FileCompletion:
    """File search for a completion popup; at most one search runs at a time, in a thread."""

    def __init__(self, screen: "Screen[None]", popup: CompletionPopup, host: "Host") -> None:
        self._screen, self._popup, self._host = screen, popup, host
        self._index: FileIndex | None = None
        self._built_at = self._build_seconds = 0.0
        self._wanted: str | None = None
        self._is_running = False

    def search(self, query: str) -> None:
        """Search for files in the background, and show them in the popup.

        A previous search that has not started yet is discarded.
        """
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
        from mcphost.host.conversation.file_index import complete_typed_path, find_exact

        if typed.startswith(("/", "~", "..")):
            return complete_typed_path(typed)
        found = self._get_index(roots, max(_MIN_AGE, _AGE_PER_BUILD * self._build_seconds)).search(typed)
        found = found or self._get_index(roots, _AGE_PER_BUILD_IF_EMPTY * self._build_seconds).search(typed)
        exact = tuple(one for one in find_exact(typed) if one not in found)
        return (*exact, *found) or complete_typed_path(typed)

    def _get_index(self, roots: list[str], max_age: float) -> "FileIndex":
        """Return the index of the files in the working directory and in *roots*; build it if necessary.

        The index is rebuilt if it is older than *max_age* seconds or INDEX_AGE seconds, whichever is less.
        """
        from mcphost.host.conversation.file_index import build_index

        begun = monotonic()
        if self._index is None or begun - self._built_at > min(INDEX_AGE, max_age):
            self._index = build_index(os.getcwd(), roots)
            self._built_at = monotonic()
            self._build_seconds = self._built_at - begun
        return self._index


def _split_lines(query: str) -> tuple[str, str]:
    """Split `PATH:10-40` into the path and `:10-40`.

    The user may still be typing the line range, for example `:10-`. If there is no line range, the second item is
    "".
    """
    path, colon, lines = query.rpartition(":")
    is_range = colon and path and not lines.strip("0123456789-")
    return (path, f"{colon}{lines}") if is_range else (query, "")


def _make_item(found: "FileMatch", lines: str) -> CompletionItem:
    path = found.path
    folder, _, name = path.rstrip("/").rpartition("/")
    value = path if found.is_folder else f"{path}{lines.rstrip(':-')}"
    return CompletionItem("file", value, "", f"{name}{'/' if found.is_folder else lines}", folder)
