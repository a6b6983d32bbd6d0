"""Rows of the attachment list, with the kind, size and estimated tokens of each attachment."""

from mcphost.llm.messages import FilePart, ImagePart, Part, ResourcePart
from mcphost.llm.token_estimate import estimate_part_tokens, estimate_text_tokens
from mcphost.translation import N_
from mcphost.tui.widgets.attachment_list import AttachmentRow


def build_row(part: Part) -> AttachmentRow:
    """Return the row for an attached file, resource, image or tool result."""
    match part:
        case ResourcePart():
            server, name, size = part.server, part.source, len(part.text.encode("utf-8", "replace"))
        case ImagePart() | FilePart():
            server, name, size = part.server, part.name or part.mime_type, len(part.data) * 3 // 4
        case _:
            server, name, size = "", "", 0
    where = f"{server} · {name}" if server else name
    return AttachmentRow(describe_kind(part), where, format_size(size), estimate_part_tokens(part))


def build_paste_row(placeholder: str, text: str) -> AttachmentRow:
    """Return the row for a long paste; the composer shows *placeholder*, but the full *text* is sent."""
    size = format_size(len(text.encode("utf-8", "replace")))
    return AttachmentRow(N_("paste"), placeholder, size, estimate_text_tokens(text))


def describe_kind(part: Part) -> str:
    """Return the kind of an attachment as one word."""
    match part:
        case ResourcePart() if part.is_from_page:
            return N_("page")
        case ResourcePart() if part.tool or part.use_id:
            return N_("result")
        case ResourcePart() if part.whole:
            return N_("changes")
        case ResourcePart() if part.mime_type == "application/pdf":
            return "PDF"
        case ResourcePart() if part.server:
            return N_("resource")
        case ResourcePart():
            return N_("folder") if part.mime_type == "inode/directory" else N_("file")
        case ImagePart():
            return N_("image")
        case FilePart():
            return "PDF" if part.mime_type == "application/pdf" else N_("audio")
        case _:
            return N_("text")


def format_size(size: int) -> str:
    """Format a number of bytes for display, such as "890 B", "12 kB" or "1.2 MB"."""
    if size < 1_000:
        return f"{size} B"
    if size < 1_000_000:
        return f"{size / 1_000:.0f} kB" if size >= 9_950 else f"{size / 1_000:.1f} kB"
    return f"{size / 1_000_000:.1f} MB"
