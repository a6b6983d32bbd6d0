"""Export of conversations as Markdown, JSON or one HTML page without scripts; all text is sanitized or escaped.

The JSON format is complete: `messages` contains the messages as they are stored, so that programs can read them back.
Tool calls that the user made without the model are included, and marked as not sent to the model.
"""

import base64
import binascii
import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from pathlib import PurePath
from typing import Literal, get_args

from mcphost.host.conversation.inert_markdown import escape_line, make_inert
from mcphost.host.message_text import describe_author
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
)
from mcphost.local_time import format_moment
from mcphost.pluralize import pluralize
from mcphost.sanitize import escape_unsafe_json, sanitize
from mcphost.serialization import dumps, to_builtins
from mcphost.store.conversations import ConversationInfo
from mcphost.store.manual_calls import StoredManualCall

ExportFormat = Literal["markdown", "json", "html"]
FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
ENDINGS: dict[str, ExportFormat] = {".md": "markdown", ".html": "html", ".json": "json"}
"""The file name extensions, each with its export format."""
JSON_VERSION = 1
MANUAL_CALL = "By hand, not sent to the model"
"""Heading of a tool call that the user made without the model."""
_OUTCOMES = {"ok": "result", "error": "error", "stopped": "stopped"}
MAX_IMAGE_BYTES = 2_000_000
MAX_IMAGES_BYTES = 20_000_000
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_AUTHORS = {"user": "You", "assistant": "Assistant", "tool": "Results"}
_BACKTICKS = re.compile(r"`{3,}")
_FENCE = re.compile(r"^(`{3,}+|~{3,}+)[^\n]*+\n(.*?)(?:^\1[`~]*[ \t]*$\n?|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)|\*\*([^*\n]+)\*\*")
_HEADING = re.compile(r"^(#{1,6}) +(.+?)$", re.MULTILINE)
STYLE = """
:root { color-scheme: light dark; --text: #1c1e21; --back: #ffffff; --soft: #f2f4f6; --faint: #596069; --line: #d4d8dd;
  --accent: #0a5bb0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6e9; --back: #15171a; --soft: #202327; --faint: #a0a7b0; --line: #3a3f46; --accent: #7cb7ff; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--text); background: var(--back); margin: 0 auto;
  max-width: 52rem; padding: 2rem 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } .facts, .time { color: var(--faint); font-size: .85rem; }
article { margin: 1.6rem 0; } article.user { background: var(--soft); border-radius: .6rem; padding: .7rem 1rem; }
h2 { font-size: .95rem; margin: 0 0 .3rem; color: var(--accent); } .text { white-space: pre-wrap; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem; overflow-x: auto;
  white-space: pre-wrap; font: .87rem/1.45 ui-monospace, monospace; }
code { font-family: ui-monospace, monospace; font-size: .9em; } details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--faint); } img { max-width: 100%; }
"""


def export_conversation(
    info: ConversationInfo,
    messages: Sequence[Message],
    form: ExportFormat,
    *,
    system_prompt: str = "",
    manual_calls: Sequence[StoredManualCall] = (),
) -> str:
    """Return a conversation as text in the format *form*; the text ends with a newline.

    *system_prompt* is the system prompt that the user set for this conversation; "" if the configured one is used.
    *manual_calls* are the tool calls that the user made, oldest first; they are marked as not sent to the model.
    """
    match form:
        case "json":
            return _to_json(info, messages, system_prompt, manual_calls)
        case "html":
            return _HtmlPage(info).write(_merge(messages, manual_calls), system_prompt)
        case "markdown":
            return _to_markdown(info, _merge(messages, manual_calls), system_prompt)


def _merge(
    messages: Sequence[Message], manual_calls: Sequence[StoredManualCall]
) -> Iterator[Message | StoredManualCall]:
    """Yield the messages in order; insert each manual call before the first message newer than the call."""
    waiting = deque(manual_calls)
    for message in messages:
        while waiting and message.at > waiting[0].at:
            yield waiting.popleft()
        yield message
    yield from waiting


def find_format(file_name: str) -> ExportFormat | None:
    """Return the export format for a file name's extension, or None if the extension is not in ENDINGS."""
    return ENDINGS.get(PurePath(file_name).suffix.lower())


def suggest_file_name(info: ConversationInfo, form: ExportFormat) -> str:
    """Return a file name derived from a conversation's title, with only letters, digits and hyphens."""
    words = re.findall(r"[^\W_]+", info.title.lower())
    stem = "-".join(words)[:60].strip("-") or "conversation"
    ending = next(ending for ending, its_form in ENDINGS.items() if its_form == form)
    return f"{stem}-{info.id[:6]}{ending}"


def _describe(info: ConversationInfo) -> str:
    parts = (format_moment(info.created), info.model, pluralize(info.messages, "message"))
    return sanitize(" · ".join(filter(None, parts)), keep_newlines=False)


def _author(message: Message) -> str:
    name = describe_author(message) or _AUTHORS[message.role]
    details = [name, f" ({message.model})" if message.model else "", ", stopped" if message.cut else ""]
    return sanitize("".join(details), keep_newlines=False)


def _outcome(part: ToolReturnPart) -> str:
    return part.outcome if part.outcome not in ("", "ok") else "failed" if part.is_error else "result"


def _arguments(part: ToolUsePart) -> str:
    return sanitize(part.raw if part.arguments is None else dumps(part.arguments, indent=2))


def _to_json(
    info: ConversationInfo,
    messages: Sequence[Message],
    system_prompt: str,
    manual_calls: Sequence[StoredManualCall],
) -> str:
    facts = {"format": "mcphost-conversation", "version": JSON_VERSION, **to_builtins(info)}
    facts["system_prompt"] = system_prompt
    facts["messages"] = [to_builtins(message) for message in messages]
    facts["manual_calls"] = [{**to_builtins(call), "sent_to_model": False} for call in manual_calls]
    return escape_unsafe_json(dumps(facts, indent=2)) + "\n"


def _to_markdown(info: ConversationInfo, entries: Iterable[Message | StoredManualCall], system_prompt: str) -> str:
    lines = [f"# {escape_line(info.title)}", escape_line(_describe(info))]
    if system_prompt:
        lines += ["## System prompt", make_inert(system_prompt)]
    for entry in entries:
        when = format_moment(entry.at)
        author = MANUAL_CALL if isinstance(entry, StoredManualCall) else _author(entry)
        lines.append(f"## {escape_line(author)}{f' · {when}' if when else ''}")
        if isinstance(entry, StoredManualCall):
            lines += _manual_call_to_markdown(entry)
        else:
            lines += [text for part in entry.parts if (text := _part_to_markdown(part))]
    return "\n\n".join(line for line in lines if line) + "\n"


def _manual_call_to_markdown(call: StoredManualCall) -> Iterator[str]:
    name = _code(f"{call.server}/{call.tool}")
    yield f"**Called `{name}`**\n\n{_fence(sanitize(dumps(call.arguments, indent=2)), 'json')}"
    yield f"**`{name}`: {_describe_outcome(call)}**\n\n{_fence(sanitize(call.text))}"
    yield from (f"*{_describe_image(image, escape_line)}*" for image in call.images)


def _describe_outcome(call: StoredManualCall) -> str:
    return _OUTCOMES.get(call.outcome, "failed")


def _part_to_markdown(part: Part) -> str:
    match part:
        case TextPart():
            return make_inert(part.text)
        case ThinkingPart():
            return "\n".join(f"> {line}" for line in make_inert(part.text).split("\n") if part.text)
        case ToolUsePart():
            return f"**Calls `{_code(part.name)}`**\n\n{_fence(_arguments(part), 'json')}"
        case ToolReturnPart():
            images = "".join(f"\n\n*{_describe_image(image, escape_line)}*" for image in part.images)
            return f"**`{_code(part.name)}`: {_outcome(part)}**\n\n{_fence(sanitize(part.text))}{images}"
        case ResourcePart() if part.is_from_page:
            page = f"**Written by the page of `{_code(part.tool)}`** ({escape_line(part.server)})"
            return f"{page}\n\n{_fence(sanitize(part.text))}"
        case ResourcePart():
            server = f" ({escape_line(part.server)})" if part.server else ""
            return f"**Attached `{_code(part.uri)}`**{server}\n\n{_fence(sanitize(part.text))}"
        case FilePart():
            return f"**Attached `{_code(part.name)}`** ({escape_line(part.mime_type)})"
        case ImagePart():
            return f"*{_describe_image(part, escape_line)}*"


def _code(name: str) -> str:
    return sanitize(name, keep_newlines=False).replace("`", "'")


def _fence(text: str, language: str = "") -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{text.strip(chr(10))}\n{marks}"


def _describe_image(part: ImagePart, escape_kind: Callable[[str], str]) -> str:
    return f"[image, {escape_kind(part.mime_type)}, {len(part.data) * 3 // 4:,} bytes]"


class _HtmlPage:
    """Writer of one HTML page; images are embedded until their total size reaches a limit."""

    def __init__(self, info: ConversationInfo) -> None:
        self._info = info
        self._image_bytes = 0

    def write(self, entries: Iterable[Message | StoredManualCall], system_prompt: str) -> str:
        """Return the page as HTML; its content security policy allows only the page's own style and embedded images."""
        title = escape(sanitize(self._info.title, keep_newlines=False))
        digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
        policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
        head = (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        )
        facts = f'<h1>{title}</h1>\n<p class="facts">{escape(_describe(self._info))}</p>\n'
        prompt = _details("System prompt", sanitize(system_prompt)) if system_prompt else ""
        articles = "".join(
            self._write_manual_call(entry) if isinstance(entry, StoredManualCall) else self._write_message(entry)
            for entry in entries
        )
        return f"{head}{facts}{prompt}{articles}</body>\n</html>\n"

    def _write_message(self, message: Message) -> str:
        when = format_moment(message.at)
        time = f' <span class="time">{when}</span>' if when else ""
        parts = "".join(self._write_part(part) for part in message.parts)
        return f'<article class="{message.role}">\n<h2>{escape(_author(message))}{time}</h2>\n{parts}</article>\n'

    def _write_manual_call(self, call: StoredManualCall) -> str:
        when = format_moment(call.at)
        time = f' <span class="time">{when}</span>' if when else ""
        name = f"{call.server}/{call.tool}"
        called = _details(f"Called {name}", sanitize(dumps(call.arguments, indent=2)))
        result = _details(f"{name}: {_describe_outcome(call)}", sanitize(call.text))
        images = "".join(self._write_image(image) for image in call.images)
        return f'<article class="manual">\n<h2>{MANUAL_CALL}{time}</h2>\n{called}{result}{images}</article>\n'

    def _write_part(self, part: Part) -> str:
        match part:
            case TextPart():
                return "".join(_write_text(sanitize(part.text)))
            case ThinkingPart():
                return _details("Thinking", sanitize(part.text))
            case ToolUsePart():
                return _details(f"Calls {part.name}", _arguments(part))
            case ToolReturnPart():
                images = "".join(self._write_image(image) for image in part.images)
                return _details(f"{part.name}: {_outcome(part)}", sanitize(part.text)) + images
            case ResourcePart() if part.is_from_page:
                return _details(f"Written by the page of {part.tool} ({part.server})", sanitize(part.text))
            case ResourcePart():
                server = f" ({part.server})" if part.server else ""
                return _details(f"Attached {part.uri}{server}", sanitize(part.text))
            case FilePart():
                return f"<p>Attached {escape(_code(part.name))} ({escape(_code(part.mime_type))})</p>\n"
            case ImagePart():
                return self._write_image(part)

    def _write_image(self, part: ImagePart) -> str:
        size = len(part.data) * 3 // 4
        fits = size <= MAX_IMAGE_BYTES and self._image_bytes + size <= MAX_IMAGES_BYTES
        if part.mime_type not in _IMAGE_TYPES or not fits or not _is_base64(part.data):
            return f"<p>{escape(_describe_image(part, _code))}</p>\n"
        self._image_bytes += size
        return f'<p><img alt="Image" src="data:{part.mime_type};base64,{part.data}"></p>\n'


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _details(summary: str, text: str) -> str:
    shown = escape(sanitize(summary, keep_newlines=False))
    return f"<details><summary>{shown}</summary><pre>{escape(text)}</pre></details>\n"


def _write_text(text: str) -> Iterator[str]:
    """Convert Markdown text to HTML and yield it in pieces; only code, headings and bold words are formatted."""
    end = 0
    for fence in _FENCE.finditer(text):
        yield _paragraphs(text[end : fence.start()])
        yield f"<pre><code>{escape(fence.group(2))}</code></pre>\n"
        end = fence.end()
    yield _paragraphs(text[end:])


def _paragraphs(text: str) -> str:
    if not text.strip():
        return ""
    shown = _HEADING.sub(r"<strong>\2</strong>", escape(text.strip("\n"), quote=False))
    return f'<div class="text">{_INLINE.sub(_mark_inline, shown)}</div>\n'


def _mark_inline(match: re.Match[str]) -> str:
    code, bold = match.groups()
    return f"<code>{code}</code>" if code is not None else f"<strong>{bold}</strong>"
