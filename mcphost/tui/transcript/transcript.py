"""Widget that shows the conversation, handles keys and clicks in it, and posts requests to the app."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType

from mcphost.translation import _
from mcphost.tui.transcript.block_scroll_view import BlockScrollView
from mcphost.tui.transcript.blocks import TranscriptBlock, UserMessage
from mcphost.tui.transcript.copying import PartCopier
from mcphost.tui.transcript.tool_card import find_background_candidate
from mcphost.tui.widget_messages import (
    ActionRequested,
    BackgroundRequested,
    CopyRequested,
    EditRequested,
    LinkClicked,
    TextViewRequested,
)


class Transcript(BlockScrollView, can_focus=True):
    """Widget that shows the conversation as blocks; keys act on the current block."""

    # Selecting text with the mouse must not take the focus away from the composer.
    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "step(-1)", show=False, id="conversation-previous"),
        Binding("right_square_bracket", "step(1)", show=False, id="conversation-next"),
        Binding("enter,space", "activate", show=False, id="conversation-open"),
        Binding("left_curly_bracket", "step_message(-1)", show=False, id="conversation-previous-message"),
        Binding("right_curly_bracket", "step_message(1)", show=False, id="conversation-next-message"),
        Binding("c", "copy", show=False, id="conversation-copy"),
        Binding("y", "copy_part(False)", show=False, id="conversation-copy-part"),
        Binding("Y", "copy_part(True)", show=False, id="conversation-copy-values"),
        Binding("e", "edit", show=False, id="conversation-edit"),
        Binding("b", "background", show=False, id="conversation-background"),
        Binding("o", "app.app", show=False, id="conversation-page"),
        Binding("home", "jump(False)", show=False),
        Binding("end", "jump(True)", show=False),
        Binding("escape", "screen.focus_message", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own parameter name
        super().__init__(id=id)
        self._part_copier = PartCopier(self, lambda: self.blocks, self.finish_streams)

    def _forget_positions(self, start: int) -> None:
        super()._forget_positions(start)
        self._part_copier.forget()

    # -- mouse

    def on_click(self, event: events.Click) -> None:
        """Open a link, fold or unfold a block, open its text in the viewer, or act on another clickable part."""
        meta = event.style.meta
        if href := meta.get("href"):
            self.post_message(LinkClicked(str(href)))
        elif meta.get("act") == "newest":
            self.action_jump(True)
        elif meta.get("act") in ("call_again", "app"):
            self.post_message(ActionRequested(meta["act"], meta.get("call", "")))
        elif "copy" in meta and self.blocks:
            index = self._block_layout.find_index(event.get_content_offset_capture(self).y + self.scroll_offset.y)
            self._part_copier.copy(index, int(meta["copy"]))
        elif meta.get("act") in ("enter", "background") and self.blocks:
            index = self._block_layout.find_index(event.get_content_offset_capture(self).y + self.scroll_offset.y)
            (self._activate if meta["act"] == "enter" else self._send_to_background)(index)

    def _send_to_background(self, index: int) -> None:
        """Post a request to move the call at *index* to the background or, if there is none, the only running call."""
        if (card := find_background_candidate(self.blocks, index)) is not None:
            self.post_message(BackgroundRequested(card.call))
        else:
            self.notify(_("Select a running call of the model first, with [ and ]."), markup=False, timeout=3)

    # -- keys

    def action_background(self) -> None:
        """Post a request to move the current block's tool call to the background, so that the turn can go on."""
        self._send_to_background(self.current_index)

    def _activate(self, index: int) -> None:
        block = self.blocks[index]
        if (opened := block.activate()) is not None:
            viewed = TextViewRequested(*opened, full_text_file=block.full_text_file, sections=block.sections())
            self.post_message(viewed)
        else:
            self.is_following = self.is_following and index == len(self.blocks) - 1
            self.update_block(block)

    def action_step(self, by: int) -> None:
        """Make the next (*by* = 1) or previous (*by* = -1) selectable block current, and scroll it into view."""
        self._step(by, lambda block: block.can_step)

    def _step(self, by: int, is_target: Callable[[TranscriptBlock], bool]) -> None:
        index = self._block_layout.find_step(self.current_index, by, is_target)
        if index < 0 and self.earlier is not None:
            self.finish_loading()
            index = self._block_layout.find_step(self.current_index, by, is_target)
        if 0 <= index < len(self.blocks):
            self.show_block(index)

    def show_block(self, index: int) -> None:
        """Make the block at *index* the current block, and scroll it into view."""
        old, self.current_index = self.current_index, index
        for number in (max(0, old), index):
            self.blocks[number].strips = None
        top = self._block_layout.top(index)
        if not self.scroll_offset.y <= top < self.scroll_offset.y + self.size.height - 2:
            self.is_following = False
            self._scroll_to_row(max(0, top - 1))
        self._update_view()

    def action_activate(self) -> None:
        """Fold or unfold the current block, or open its text in the text viewer."""
        if self.current_index < 0:
            self.current_index = self._block_layout.find_last_in_view(self.scroll_offset.y, self.size.height)
        if 0 <= self.current_index < len(self.blocks):
            self._activate(self.current_index)

    def action_copy(self) -> None:
        """Copy the selected text or, if nothing is selected, the text of the current block."""
        text = self.screen.get_selected_text()
        if not text and 0 <= self.current_index < len(self.blocks):
            text = self.blocks[self.current_index].copy_text()
        if text:
            self.post_message(CopyRequested(text))

    def action_copy_part(self, as_tsv: bool) -> None:
        """Copy the first code block, table or tool result of the current block; each further press copies the next.

        A table is copied as Markdown or, if *as_tsv* is true, as tab-separated values.
        """
        if self.current_index < 0:
            self.current_index = self._block_layout.find_last_in_view(self.scroll_offset.y, self.size.height)
        if 0 <= self.current_index < len(self.blocks):
            self._part_copier.copy_next(self.current_index, as_tsv=as_tsv)

    def action_step_message(self, by: int) -> None:
        """Make the next (*by* = 1) or previous (*by* = -1) user message the current block, and scroll to it."""
        self._step(by, lambda block: isinstance(block, UserMessage))

    def action_edit(self) -> None:
        """Post a request to edit the user message at or above the current block; if there is none, the first one."""
        self.finish_loading()
        places = [at for at, block in enumerate(self.blocks) if isinstance(block, UserMessage)]
        current = self.current_index if self.current_index >= 0 else len(self.blocks)
        if places:
            self.post_message(EditRequested(max(0, sum(at <= current for at in places) - 1)))

    def action_jump(self, to_end: bool) -> None:
        """Scroll to the beginning; if *to_end* is true, scroll to the end instead, and follow it as text is added."""
        self.is_following = to_end
        if not to_end:
            self.finish_loading()
            self._scroll_to_row(0)
        self._update_view()

    def watch_has_focus(self, _has_focus: bool) -> None:
        """Show or hide the cursor bar; on focus, make the lowest visible block current if no block is."""
        super().watch_has_focus(_has_focus)
        if _has_focus and not 0 <= self.current_index < len(self.blocks):
            self.current_index = self._block_layout.find_last_in_view(self.scroll_offset.y, self.size.height)
        if 0 <= self.current_index < len(self.blocks):
            self.blocks[self.current_index].strips = None
            self.refresh()
        self.spinner.redraw()
