"""Blocks to place among the messages of an opened conversation: manual tool calls, and the notice about a summary."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcphost.tui.transcript.message_blocks import build_image_cards
from mcphost.tui.transcript.notices import build_compaction_notice
from mcphost.tui.transcript.opened_conversation import TimedBlock
from mcphost.tui.transcript.tool_card import ToolCard

if TYPE_CHECKING:
    from mcphost.host.conversation.controller import ConversationController
    from mcphost.store.manual_calls import StoredManualCall


def build_timed_blocks(conversation: "ConversationController", *, draws_images: bool) -> list[TimedBlock]:
    """Return the blocks to place between the open conversation's messages, oldest first.

    If *draws_images* is true, the images in the results of manual tool calls are included.
    """
    found = [block for call in conversation.manual_calls for block in _build_manual_call(call, draws_images)]
    if (made := conversation.compaction) is not None:
        notice = build_compaction_notice(made.messages, len(made.sentences), made.unknown_count)
        found.append(TimedBlock(made.at, notice))
    return sorted(found, key=lambda one: one.at)


def _build_manual_call(call: "StoredManualCall", draws_images: bool) -> Iterator[TimedBlock]:
    card = ToolCard(call.page, call.server, call.tool, call.arguments)
    card.started_by = "user"
    card.finish(call.outcome, call.text, call.seconds)
    yield TimedBlock(call.at, card)
    for image in build_image_cards(call.images) if draws_images else ():
        yield TimedBlock(call.at, image)
