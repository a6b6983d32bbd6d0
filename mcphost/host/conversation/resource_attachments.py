"""Conversion of an MCP resource to message parts: text, or binary data that the model accepts."""

import base64
import binascii
from collections.abc import Iterable
from itertools import islice

from mcphost.errors import UsageError
from mcphost.host.conversation.local_files import MAX_BINARY_BYTES, Attachment, identify_binary, make_binary_part
from mcphost.llm.messages import ResourcePart
from mcphost.llm.model import ModelFacts
from mcphost.protocol.content import ResourceContents

MAX_ATTACHED = 1_000
"""Maximum number of content items of one resource that are attached; each costs time whenever attachments are shown."""


def make_resource_attachments(
    server: str, contents: Iterable[ResourceContents], facts: ModelFacts
) -> tuple[Attachment, ...]:
    """Return one attachment for each of the first MAX_ATTACHED content items of a resource.

    If there are more items, an additional attachment states how many were left out. Binary data that the model does
    not accept is replaced with a note that states its type and why it was replaced. PDF files and images may still
    have to be converted with an AttachmentFitter.
    """
    remaining = iter(contents)
    made = tuple(_make_attachment(server, one, facts) for one in islice(remaining, MAX_ATTACHED))
    first = next(remaining, None)
    if first is None:
        return made
    note = f"{1 + sum(1 for _ in remaining):,} more items of this resource are not attached"
    return *made, Attachment(name=first.uri, part=ResourcePart(server, first.uri, f"[{note}]", ""), note=note)


def _make_attachment(server: str, contents: ResourceContents, facts: ModelFacts) -> Attachment:
    mime_type = contents.mime_type or ""
    if contents.text is not None:
        part = ResourcePart(server, contents.uri, contents.text, mime_type)
        return Attachment(name=contents.uri, part=part)
    blob = contents.blob or ""
    try:
        if len(blob) > MAX_BINARY_BYTES * 4 // 3 + 4:
            raise UsageError(f"it has {len(blob) * 3 // 4:,} bytes, and at most {MAX_BINARY_BYTES:,} can be attached")
        body = base64.b64decode(blob, validate=True)
        if kind := identify_binary(body):
            return Attachment(name=contents.uri, part=make_binary_part(contents.uri, kind, body, facts, server))
        reason = f"it has {len(body):,} bytes, and no model reads them"
    except (binascii.Error, ValueError):
        reason = "it is not valid base64"
    except UsageError as error:
        reason = error.message.rstrip(".").removeprefix(f"{contents.uri} is ")
    text = f"[{mime_type or 'binary'}, not attached: {reason}]"
    return Attachment(name=contents.uri, part=ResourcePart(server, contents.uri, text, mime_type), note=reason)
