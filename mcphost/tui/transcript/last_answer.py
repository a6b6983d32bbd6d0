"""The text of the model's latest answer, for the clipboard."""

from mcphost.tui.transcript.blocks import MarkdownBlock, SpeakerHeading, UserMessage
from mcphost.tui.transcript.transcript import Transcript


def find_last_answer(transcript: Transcript) -> str:
    """Return the Markdown source of the model's latest answer, or "" if there is none."""
    transcript.finish_streams()
    if not any(isinstance(block, MarkdownBlock) for block in transcript.blocks):
        transcript.finish_loading()
    parts: list[str] = []
    for block in reversed(transcript.blocks):
        if isinstance(block, UserMessage | SpeakerHeading) and parts:
            break
        if isinstance(block, MarkdownBlock):
            parts.append(block.text)
    return "\n\n".join(part.strip("\n") for part in reversed(parts))
