"""Transcript blocks of a conversation's messages and their attachments."""

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcphost.llm.messages import (
    FilePart,
    ImagePart,
    Message,
    Part,
    ResourcePart,
    TextPart,
    ThinkingPart,
    ToolReturnPart,
    ToolUsePart,
    format_tool_name,
    resource_key,
)
from mcphost.local_time import local_moment
from mcphost.sanitize import is_shown_within
from mcphost.translation import _
from mcphost.tui.transcript.blocks import (
    BackgroundResult,
    MarkdownBlock,
    NoticeBlock,
    SpeakerHeading,
    ThinkingBlock,
    TranscriptBlock,
    UserMessage,
    label_model,
)
from mcphost.tui.transcript.image_block import ImageCard, detect_image
from mcphost.tui.transcript.streaming import TextSplitter, split_into_blocks
from mcphost.tui.transcript.tool_card import ToolCard

if TYPE_CHECKING:
    from mcphost.tui.transcript.opened_conversation import TimedBlock

_MAX_SINGLE_BLOCK = 4000
_MAX_IMAGES = 20  # per result


def format_time(seconds: float) -> str:
    """Format a Unix timestamp as HH:MM in local time; return "" if it is invalid, or 0, which means unknown."""
    moment = local_moment(seconds)
    return f"{moment:%H:%M}" if moment else ""


def build_user_message(message: Message) -> UserMessage | BackgroundResult:
    """Return the block for a user message and its attachments, or for the result of a background call."""
    if (late := message.late_result) is not None:
        return BackgroundResult(late, format_time(message.at), image_count=len(message.parts) - 1)
    attached = [(name, resource_key(part)) for part in message.parts if (name := describe_attachment(part))]
    names, resources = tuple(name for name, _unused in attached), tuple(key for _unused, key in attached)
    source, at = describe_source(message), format_time(message.at)
    return UserMessage(message.text, names, at, source, resources, is_automatic=message.is_automatic)


def attached_images(message: Message) -> list[ImagePart]:
    """Return the images attached to a message, excluding images in tool results."""
    return [part for part in message.parts if isinstance(part, ImagePart)]


def describe_source(message: Message) -> str:
    """Describe the MCP prompt from which a message was inserted; return "" if there is none."""
    prompt, text = message.prompt, _("from the prompt {name} of {server}")
    return text.format(name=prompt.name, server=prompt.server) if prompt is not None else ""


def build_inserted_answer(message: Message, splitter: TextSplitter | None = None) -> list[TranscriptBlock]:
    """Return the blocks for an assistant message that was inserted as part of a prompt.

    *splitter* may leave a part of the text for later; see `build_markdown_blocks`.
    """
    out: list[TranscriptBlock] = [SpeakerHeading(_("Assistant"), describe_source(message), format_time(message.at))]
    for part in message.parts:
        attached = describe_attachment(part)
        out.extend([NoticeBlock("info", f"@ {attached}")] if attached else _build_part_blocks(part, {}, splitter))
    return out


def describe_attachment(part: Part) -> str:
    """Describe an attachment by its server, name and size; return "" if *part* is not an attachment."""
    match part:
        case ResourcePart():
            size = _("result, {text_count:,} characters") if part.tool else _("{text_count:,} characters")
            size = _("from its page, {text_count:,} characters") if part.is_from_page else size
            name, size = part.tool or part.uri, size.format(text_count=len(part.text))
        case ImagePart() | FilePart():
            kind = _("image, ") if isinstance(part, ImagePart) and not part.name else ""
            size = _("{kind}about {data_count:,} bytes").format(kind=kind, data_count=len(part.data) * 3 // 4)
            name = part.name or part.mime_type
        case _:
            return ""
    return f"{part.server} · {name}  ({size})" if part.server else f"{name}  ({size})"


def build_markdown_blocks(text: str, splitter: TextSplitter | None = None) -> list[TranscriptBlock]:
    """Return the blocks for complete text from the model; long text is split into several blocks.

    If *splitter* is given, it splits the text and may leave a part for later; otherwise, all of it is split at once.
    """
    if is_shown_within(text, _MAX_SINGLE_BLOCK):
        return [MarkdownBlock(text)]
    return split_into_blocks(text) if splitter is None else splitter.split(text)


def build_image_cards(images: Iterable[ImagePart]) -> list[TranscriptBlock]:
    """Return a card for each image in a supported format; only the first 20 images are considered."""
    known = ((part, detect_image(part)) for part in islice(images, _MAX_IMAGES))
    return [ImageCard(part, kind) for part, kind in known if kind is not None]


def build_blocks(
    messages: Iterable[Message],
    can_draw_images: Callable[[], bool] = lambda: False,
    *,
    show_costs: bool = False,
    timed: "Iterable[TimedBlock]" = (),
    splitter: TextSplitter | None = None,
) -> list[TranscriptBlock]:
    """Return the blocks for the messages of a stored conversation.

    - *can_draw_images* is called only if there are images in tool results or attached images. If it returns True, these
      images are included.
    - *show_costs*: whether to show the cost of responses.
    - *timed*: other blocks, each of which is placed before the first message that is newer.
    - *splitter* may leave a part of long texts for later; see `build_markdown_blocks`.
    """
    out: list[TranscriptBlock] = []
    waiting = deque(timed)
    cards: dict[str, ToolCard] = {}
    heading: SpeakerHeading | None = None
    for message in messages:
        while waiting and message.at > waiting[0].at:
            out.append(waiting.popleft().block)
        if message.role == "user" or message.prompt is not None:
            out.extend(_build_user_blocks(message, can_draw_images, splitter))
            heading = None
            continue
        if message.role == "assistant" and heading is None and message.parts:
            heading = SpeakerHeading(_("Assistant"), label_model(message.model), format_time(message.at))
            out.append(heading)
        if heading is not None and show_costs:
            heading.cost += (message.usage.cost or 0.0) if message.usage else 0.0
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                _apply_tool_return(cards, part)
                _insert_result_images(out, cards, part, can_draw_images)
            else:
                out.extend(_build_part_blocks(part, cards, splitter))
        if message.cut:
            out.append(NoticeBlock("warning", _("This answer is incomplete.")))
    out.extend(one.block for one in waiting)
    for card in cards.values():
        if card.state == "proposed":
            card.state = "stopped"
    return out


def _build_user_blocks(
    message: Message, can_draw_images: Callable[[], bool], splitter: TextSplitter | None
) -> list[TranscriptBlock]:
    """Return the blocks for a message that the user sent, or that was inserted from a prompt.

    For *can_draw_images* and *splitter*, see `build_blocks`.
    """
    if message.role != "user":
        return build_inserted_answer(message, splitter)
    images = attached_images(message)
    return [build_user_message(message), *(build_image_cards(images) if images and can_draw_images() else ())]


def _build_part_blocks(part: Any, cards: dict[str, ToolCard], splitter: TextSplitter | None) -> list[TranscriptBlock]:
    if isinstance(part, TextPart):
        return build_markdown_blocks(part.text, splitter) if part.text.strip() else []
    if isinstance(part, ThinkingPart):
        return [ThinkingBlock(part.text)] if part.text.strip() else []
    if isinstance(part, ToolUsePart):
        card = cards[part.id] = ToolCard(part.id, "", format_tool_name(part.name), part.arguments, part.raw)
        return [card]
    return []


def _insert_result_images(
    out: list[TranscriptBlock], cards: dict[str, ToolCard], part: ToolReturnPart, can_draw_images: Callable[[], bool]
) -> None:
    card = cards.get(part.use_id)
    if part.images and card is not None and can_draw_images():
        at = out.index(card) + 1
        out[at:at] = build_image_cards(part.images)


def _apply_tool_return(cards: dict[str, ToolCard], part: ToolReturnPart) -> None:
    card = cards.get(part.use_id)
    if card is not None:
        card.server, card.tool = part.server or card.server, part.tool or card.tool
        card.reused_from = format_time(part.reused_at)
        outcome, text = part.outcome or ("error" if part.is_error else "ok"), part.user_text or part.text
        card.finish(outcome, text, part.seconds, part.kept)
        card.full_text_file = part.kept
