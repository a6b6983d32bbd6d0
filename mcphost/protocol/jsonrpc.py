"""JSON-RPC messages: parsing, serialization, batches and error codes (specification: basic/index#messages).

Only the outer members are decoded; `params` and `result` stay raw JSON, so that each is decoded only once, directly to
the right type.
"""

import re
from codecs import getincrementaldecoder
from collections.abc import Generator
from functools import lru_cache
from typing import Any

from mcphost.errors import MalformedMessage
from mcphost.json_limits import check_message, find_item_end, iter_chunks, run_steps
from mcphost.serialization import UNSET, Raw, Struct, UnsetType, WireStruct, decode, encode

RequestId = int | str

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
RESOURCE_NOT_FOUND = -32002

BATCH_LIMIT = 1_000

# Only these errors prove that a server supports revision 2026-07-28; after any other error, `initialize` is tried.
STATELESS_ERRORS = frozenset({HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION})


class ErrorData(WireStruct, frozen=True):
    """The `error` member of a response; `data` stays raw JSON until it is needed."""

    code: int = 0
    message: str = ""
    data: Raw = Raw()


class JsonRpcRequest(Struct, frozen=True):
    """A JSON-RPC request; its id is a string or an integer, never null."""

    id: RequestId
    method: str
    params: Raw = Raw()


class JsonRpcNotification(Struct, frozen=True):
    """A JSON-RPC notification."""

    method: str
    params: Raw = Raw()


class JsonRpcResponse(Struct, frozen=True):
    """A successful JSON-RPC response."""

    id: RequestId
    result: Raw


class JsonRpcErrorResponse(Struct, frozen=True):
    """A JSON-RPC error response; `id` is None if the server could not read the request's id."""

    id: RequestId | None
    error: ErrorData


JsonRpcMessage = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse | JsonRpcErrorResponse


_LARGE_MESSAGE = 64 * 1024
_COPY_THRESHOLD = 4 * 1024
_RESPONSE_HEAD = re.compile(rb'\{\s?"jsonrpc"\s?:\s?"2\.0"\s?,\s?"id"\s?:\s?(\d{1,18})\s?,\s?"result"\s?:')
_RESPONSE_END = re.compile(rb"\}\s*$")
_RESULT_FIRST_HEAD = re.compile(rb'\{\s?"result"\s?:')
_RESULT_FIRST_END = re.compile(rb',\s?"jsonrpc"\s?:\s?"2\.0"\s?,\s?"id"\s?:\s?(\d{1,18})\s?\}\s*$')


_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_SURROGATE_PAIR_BYTES = 12  # length of two escapes that form one character
_CHUNK_SIZE = 256 * 1024
MAX_LONE_SURROGATES = 10_000


_ABSENT = Raw()
NAME_LIMIT = 1_000
"""Maximum length of an id or a method name in characters."""


class _Envelope(WireStruct, frozen=True):
    jsonrpc: str = ""
    id: int | str | float | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


_REQUEST = b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":%b}'
_encode_method = lru_cache(maxsize=64)(encode)


def parse_message(line: bytes | bytearray | memoryview | Raw) -> JsonRpcMessage:
    """Parse a JSON-RPC message. Raises MalformedMessage.

    A lone surrogate (from a server that truncated text in the middle of an emoji) becomes U+FFFD. An error inside a
    large result may be found only later, when the result is decoded.
    """
    if len(line) > _LARGE_MESSAGE:
        return run_steps(parse_message_in_steps(bytes(line)))
    try:
        envelope = decode(line, _Envelope, "JSON-RPC message")
    except MalformedMessage:
        mended = run_steps(replace_lone_surrogates(bytes(line)))
        if mended is None:
            raise
        line = mended
        envelope = decode(line, _Envelope, "JSON-RPC message")
    return _message_of(envelope, len(line))


def parse_message_in_steps(line: bytes) -> Generator[None, None, JsonRpcMessage]:
    """Parse a message like `parse_message`, but yield every few milliseconds to let other tasks run.

    Raises MalformedMessage.
    """
    yield from check_message(line)
    answer = _parse_large_response(line)
    if answer is not None:
        return answer
    yield
    try:
        envelope = decode(line, _Envelope, "JSON-RPC message")
    except MalformedMessage:
        yield
        mended = yield from replace_lone_surrogates(line)
        if mended is None:
            raise
        line = mended
        envelope = decode(line, _Envelope, "JSON-RPC message")
    return _message_of(envelope, len(line))


def replace_invalid_utf8(line: bytes) -> Generator[None, None, bytes]:
    """Return *line*, a message, with invalid UTF-8 replaced by U+FFFD; if all of it is valid, return *line* itself.

    Raw JSON is sometimes passed on undecoded, so it must be valid UTF-8. Raises MalformedMessage if too much of the
    message is invalid. Yields every few milliseconds to let other tasks run.
    """
    strict = getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(line), _LARGE_MESSAGE):
            strict.decode(line[start : start + _LARGE_MESSAGE])
            yield
        strict.decode(b"", final=True)
    except UnicodeDecodeError:
        pass
    else:
        return line
    decoder = getincrementaldecoder("utf-8")("replace")
    parts: list[bytes] = []
    grown = 0
    for start in range(0, len(line), _LARGE_MESSAGE):
        piece = line[start : start + _LARGE_MESSAGE]
        parts.append(decoder.decode(piece, start + _LARGE_MESSAGE >= len(line)).encode())
        grown += len(parts[-1])
        if grown - start > 2 * _LARGE_MESSAGE:  # U+FFFD takes three bytes
            raise MalformedMessage("The message is not UTF-8.")
        yield
    return b"".join(parts)


def replace_lone_surrogates(line: bytes) -> Generator[None, None, bytes | None]:
    """Return *line* with each lone surrogate replaced by U+FFFD, or None if there are no lone surrogates.

    Raises MalformedMessage if there are too many. Yields every few milliseconds to let other tasks run.
    """
    if b"\\u" not in line or b"\0" in line:
        return None
    parts: list[bytes] = []
    for piece in iter_chunks(line):
        parts.append(piece.replace(b"\\\\", b"\0\0"))  # each remaining backslash then begins an escape
        yield
    text = b"".join(parts)
    parts.clear()
    at = count = 0
    for start in range(0, len(text), _CHUNK_SIZE):
        end = start + _CHUNK_SIZE
        for match in _LONE_SURROGATE.finditer(text, start, end + _SURROGATE_PAIR_BYTES):
            if match.start() >= end:
                break
            count += 1
            if count > MAX_LONE_SURROGATES:
                raise MalformedMessage(f"The message has more than {MAX_LONE_SURROGATES:,} lone surrogates.")
            parts += [text[at : match.start()].replace(b"\0", b"\\"), b"\\ufffd"]
            at = match.end()
        if at < end:
            parts.append(text[at:end].replace(b"\0", b"\\"))
            at = end
        yield
    return b"".join(parts) if count else None


def _parse_large_response(line: bytes) -> JsonRpcResponse | None:
    """Parse a large response without reading its result; return None if this is not possible.

    Regular expressions match only the text before and after the result, because searching for the end of a large result
    would take as long as decoding it. An invalid result is therefore found only later, when it is decoded.
    """
    if (head := _RESPONSE_HEAD.match(line)) is not None:
        tail = _RESPONSE_END.search(line, len(line) - 8)
    elif (head := _RESULT_FIRST_HEAD.match(line)) is not None:
        tail = _RESULT_FIRST_END.search(line, len(line) - 80)
    else:
        return None
    # an escape may be a lone surrogate; base64, the usual large content, has no escapes
    if tail is None or b"\\" in line:
        return None
    message_id = head[1] if head.re is _RESPONSE_HEAD else tail[1]
    return JsonRpcResponse(int(message_id), Raw(memoryview(line)[head.end() : tail.start()]))


def split_batch(line: bytes) -> list[Raw]:
    """Split a JSON-RPC batch into its messages, as raw JSON.

    Raises MalformedMessage if *line* is not an array, is empty, or has more than BATCH_LIMIT messages.
    """
    return run_steps(split_batch_in_steps(line))


def split_batch_in_steps(line: bytes) -> Generator[None, None, list[Raw]]:
    """Split a JSON-RPC batch as `split_batch` does, but yield every few milliseconds.

    The number of messages is checked before they are decoded, because decoding creates an object for each of them.
    """
    if (yield from find_item_end(line, BATCH_LIMIT)) >= 0:
        raise MalformedMessage(f"A batch of more than {BATCH_LIMIT:,} messages is not read.")
    members = decode(line, list[Raw], "JSON-RPC batch")
    if not members:
        raise MalformedMessage("The batch is empty.")
    return members


def _detach(raw: Raw, size: int) -> Raw:
    """Return a copy of *raw* if it is much shorter than the line that it is part of; otherwise, return *raw*.

    *raw* itself would keep the whole line in memory. *size* is the size of the line in bytes.
    """
    return raw.copy() if size > _COPY_THRESHOLD and size > 2 * len(raw) else raw


def _message_of(envelope: _Envelope, size: int) -> JsonRpcMessage:
    if envelope.jsonrpc != "2.0":
        raise MalformedMessage('The message has no "jsonrpc": "2.0".')
    message_id = envelope.id
    result, error = envelope.result is not _ABSENT, envelope.error is not _ABSENT
    if type(message_id) is int and result and not error and envelope.method is UNSET:  # the most common case
        return JsonRpcResponse(
            message_id, envelope.result if size <= _COPY_THRESHOLD else _detach(envelope.result, size)
        )
    if isinstance(message_id, float):
        raise MalformedMessage("The message has a fractional id.")
    # Ids are echoed, stored and displayed, but the limits on messages do not include them.
    if isinstance(message_id, str) and len(message_id) > NAME_LIMIT:
        raise MalformedMessage(f"The message has an id of {len(message_id):,} characters.")
    if isinstance(envelope.method, str) and len(envelope.method) > NAME_LIMIT:
        raise MalformedMessage(f"The message has a method of {len(envelope.method):,} characters.")
    if isinstance(envelope.method, str):
        if result or error:
            raise MalformedMessage("The message is both a request and a response.")
        if isinstance(message_id, UnsetType):
            return JsonRpcNotification(envelope.method, _detach(envelope.params, size))
        if message_id is None:
            raise MalformedMessage(f"The request {envelope.method!r} has a null id.")
        return JsonRpcRequest(message_id, envelope.method, _detach(envelope.params, size))
    if error and not result:
        fault = decode(envelope.error, ErrorData, "error member")
        fault = ErrorData(fault.code, fault.message, _detach(fault.data, size))
        return JsonRpcErrorResponse(None if isinstance(message_id, UnsetType) else message_id, fault)
    if result and not error and message_id is not None and not isinstance(message_id, UnsetType):
        return JsonRpcResponse(message_id, _detach(envelope.result, size))
    raise MalformedMessage("The response has neither or both of result and error, or no id.")


def serialize_message(message: JsonRpcMessage) -> bytes:
    """Encode a message as one line of JSON, without a newline at the end."""
    # The most common case takes half the time this way.
    if type(message) is JsonRpcRequest and type(message.id) is int and len(message.params):
        return _REQUEST % (message.id, _encode_method(message.method), message.params)
    body: dict[str, Any] = {"jsonrpc": "2.0"}
    match message:
        case JsonRpcRequest():
            body |= {"id": message.id, "method": message.method}
        case JsonRpcNotification():
            body["method"] = message.method
        case JsonRpcResponse():
            body |= {"id": message.id, "result": message.result}
        case JsonRpcErrorResponse():
            body |= {"id": message.id, "error": message.error}
    if isinstance(message, JsonRpcRequest | JsonRpcNotification) and memoryview(message.params).nbytes:
        body["params"] = message.params
    return encode(body)
