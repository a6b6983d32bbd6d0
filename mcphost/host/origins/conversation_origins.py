"""Search of tool call arguments for text that came from servers or files in the open conversation."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import anyio
import anyio.to_thread

from mcphost.config.rules import FILES, OTHER_SERVERS
from mcphost.config.schema import ServerConfig
from mcphost.config.server_restrictions import find_aliases
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.argument_origins import ArgumentOrigins, MediaKind
from mcphost.host.model_selection import ModelSelection
from mcphost.host.origins.argument_copies import find_origins, member_names
from mcphost.host.origins.outside_texts import (
    MAX_CHARACTERS,
    OutsideText,
    OutsideTexts,
    index_messages,
    index_newest,
    origin_name,
)
from mcphost.host.servers.servers import Servers
from mcphost.llm.messages import CopiedText, Message, TextPart
from mcphost.protocol.prompts import GetPromptResult
from mcphost.serialization import Raw, encode, replace

_MAX_EXPECTED_NAMES = 200
_AFTER_TARGET = "\n"
"""Separates the target from the server's name in labels; neither has a line break."""
_MAX_SEARCHED_BYTES = 20_000_000
"""Maximum size of the definitions in which names are searched, counted once per name."""
_MAX_SPANS = 100
"""Number of copied parts of a message from which further ones may have been left out."""
_MAX_NOTED = 400
_MAX_NOTED_CHARACTERS = 1_000_000
_MAX_UNSENT_CHARACTERS = 100_000
"""Maximum length of an unsent text that is compared each time it is stored."""


class ConversationOrigins:
    """Index for finding text in call arguments that came from servers and files in the conversation.

    When a call is proposed, the texts added since the previous call are indexed in a thread. If another conversation
    was opened since then, all of its texts are indexed.

    Servers also provide texts that the user can edit and send, such as prompts. The user may send such a text in any
    conversation, so these texts are remembered until mcphost exits. Each message that the user sends is compared with
    them and stored with a list of its copied parts.
    """

    def __init__(self, conversation: ActiveConversation, servers: Servers, models: ModelSelection) -> None:
        self._conversation = conversation
        self._servers = servers
        self._models = models
        self._noted: list[OutsideText] = []
        self._left_out: set[tuple[str, str]] = set()  # servers with their targets
        self._current: set[OutsideText] = set()  # noted in the open conversation
        self._current_left_out: set[tuple[str, str]] = set()
        self._index = OutsideTexts()
        self._standing_size = 0  # of the indexed texts that are not in messages
        self._noted_index = OutsideTexts()
        self._indexed: Sequence[Message] = ()
        self._lock = anyio.Lock()
        conversation.on_replaced(self._forget_current)

    def _forget_current(self) -> None:
        self._current.clear()
        self._current_left_out.clear()

    def note(self, outside: OutsideText) -> None:
        """Remember text from a server or file that the user can edit and send as a message.

        If a limit on the number or size of these texts is reached, the text is not remembered. In every conversation in
        which the user then sends a message, the search for copies from this server counts as incomplete.
        """
        self._conversation.set_copy_finder(self._mark_copies)
        outside = replace(outside, target=outside.target or self._servers.targets.get(outside.server, ""))
        if outside in self._noted:
            self._current.add(outside)
            return
        size = sum(len(noted.text) for noted in self._noted) + len(outside.text)
        if size <= _MAX_NOTED_CHARACTERS and len(self._noted) < _MAX_NOTED:
            self._noted.append(outside)
            self._current.add(outside)
        else:
            self._leave_out(outside.server, outside.target)

    def _leave_out(self, server: str, target: str) -> None:
        self._conversation.set_copy_finder(self._mark_copies)
        self._left_out.add((server, target))
        self._current_left_out.add((server, target))

    def note_prompt(self, server: str, name: str, prompt: GetPromptResult) -> None:
        """Remember a server's prompt, which the user can edit and send as a message."""
        self.note(OutsideText(server, f"prompt {name}", encode(prompt.messages).decode()))

    def note_text(self, server: str, source: str, text: str, target: str = "") -> None:
        """Remember text that a server provided, and that the user can edit and send as a message.

        *source* names the server's feature that provided the text, such as a prompt or a tool. *target* is the digest
        of the program or URL that the server had at that time, "" for the current program or URL; see
        `Message.servers`.
        """
        self.note(OutsideText(server, source, text, target))

    async def _mark_copies(self, message: Message) -> Message:
        """Return a message that the user typed, with the parts marked that were copied from remembered texts.

        See `note` for the remembered texts, and `TextPart.copies` for how the parts are marked.
        """
        parts = [
            replace(part, copies=await self._find_in(part.text)) if isinstance(part, TextPart) else part
            for part in message.parts
        ]
        return replace(message, parts=tuple(parts))

    async def find_copies(self, text: str) -> tuple[CopiedText, ...]:
        """Return the parts of an unsent text that were copied from remembered texts; see `note`.

        This method is called often, so a long text is not compared; the whole text then counts as possibly copied.
        """
        if len(text) > _MAX_UNSENT_CHARACTERS:
            return (*self._all_copied(text, self._noted), *self._unknown_copies())
        return await self._find_in(text) if text and (self._noted or self._left_out) else ()

    def note_copies(self, text: str, copies: Iterable[CopiedText]) -> None:
        """Remember the parts of *text* that were copied from servers, as found by an earlier run in *copies*."""
        for copied in copies:
            for start, end in copied.spans:
                self.note(OutsideText(copied.server, copied.source, text[start:end], copied.target))
            if not copied.spans:
                self._leave_out(copied.server, copied.target)

    async def _find_in(self, text: str) -> tuple[CopiedText, ...]:
        noted, unknown = tuple(self._noted), tuple(self._unknown_copies())
        async with self._lock:
            copies = await anyio.to_thread.run_sync(lambda: tuple(self._copies(text, noted)))
        return (*copies, *unknown)

    def _unknown_copies(self) -> Iterator[CopiedText]:
        for server, target in sorted(self._left_out):
            yield CopiedText(server, "prompt", target=target)

    def _all_copied(self, text: str, noted: Iterable[OutsideText]) -> Iterator[CopiedText]:
        for server, target in sorted({(outside.server, outside.target) for outside in noted}):
            yield CopiedText(server, "prompt", ((0, len(text)),), target)

    def _copies(self, text: str, noted: Sequence[OutsideText]) -> Iterator[CopiedText]:
        """Yield the parts of *text* that were copied from the texts in *noted*.

        If *text* could not be compared completely, the whole text is yielded as a possible copy. Encoded text from a
        server is not decoded here; this is done when the message is compared with a call.
        """
        for outside in noted:
            self._noted_index.add(replace(outside, server=f"{outside.target}{_AFTER_TARGET}{outside.server}"))
        whole = ((0, len(text)),)
        found = find_origins(self._noted_index, "", {"text": text})
        if OTHER_SERVERS in found.unchecked:
            yield from self._all_copied(text, noted)
            return
        for origin in found.found:
            if origin.spans:
                spans = origin.spans if len(origin.spans) < _MAX_SPANS else whole
                target, _, name = origin.server.partition(_AFTER_TARGET)
                yield CopiedText(name, origin.source, spans, target)

    async def find(self, server: str, arguments: dict[str, Any]) -> ArgumentOrigins:
        """Return the arguments of a call to *server* that were copied from other servers or from files.

        A call that continued in the background is compared with the messages of its own conversation.
        """
        conversation, messages = self._conversation.for_call
        is_open = conversation is self._conversation.current
        # Instructions are part of every model request while their server is ready, and may be part of earlier requests.
        instructions = self._servers.update_instructions()
        # It is unknown which texts were noted in a conversation that was left, so all of them are compared.
        standing = [
            *(
                OutsideText(origin_name(name, target, self._servers.targets), "instructions", text)
                for name, target, text in instructions.texts
            ),
            *(self._name_origin(outside) for outside in (self._current if is_open else self._noted)),
        ]
        left_out = self._current_left_out if is_open else self._left_out
        left_out = {origin_name(name, target, self._servers.targets) for name, target in left_out}
        left_out = frozenset((left_out | instructions.left_out) - {server})
        configs = tuple(connection.config for connection in self._servers)
        tools = [
            tool.raw
            for connection in self._servers
            if connection.config.name == server
            for tool in connection.listing.tools.values()
        ]
        async with self._lock:
            origins = await anyio.to_thread.run_sync(self._find, messages, standing, server, arguments, tools)
            is_whole = origins.are_texts_complete and not left_out
            origins = replace(origins, unchecked=origins.unchecked | left_out, are_texts_complete=is_whole)
            names = (origins.servers | origins.unchecked) - {FILES, OTHER_SERVERS}
            if not names:
                return origins
            return replace(origins, aliases=await anyio.to_thread.run_sync(_find_aliases, names, configs))

    def _name_origin(self, outside: OutsideText) -> OutsideText:
        name = origin_name(outside.server, outside.target, self._servers.targets)
        return replace(outside, server=name, target="")

    def _find(
        self,
        messages: Sequence[Message],
        standing: Iterable[OutsideText],
        server: str,
        arguments: dict[str, Any],
        tools: Sequence[Raw],
    ) -> ArgumentOrigins:
        self._update(messages, dict(self._servers.targets))
        self._index.unsent_media = self._find_unsent_media(messages)
        size = self._index.size
        for outside in standing:
            self._index.add(outside)
        self._standing_size += self._index.size - size
        if self._index.is_empty:
            return ArgumentOrigins()
        expected = _names_in(tools, member_names(arguments))
        origins = find_origins(self._index, server, arguments, expected_names=expected)
        return replace(
            origins,
            media=tuple(one for one in self._index.sent_media if one.server != server),
            are_texts_complete=not (self._index.incomplete - {server} or OTHER_SERVERS in origins.unchecked),
        )

    def _find_unsent_media(self, messages: Iterable[Message]) -> frozenset[MediaKind]:
        """Return the kinds of media that no model has received, because the model in use does not accept them.

        If another model was used earlier in the conversation, the result is empty: it is not known which media the
        earlier model accepted, so all media count as sent.
        """
        model = self._models.model
        if model is None or not self._index.media:
            return frozenset()
        facts = model.facts
        unsent: dict[MediaKind, bool] = {
            "image": facts.supports_images is False,
            "pdf": facts.supports_pdf is False,
            "audio": facts.supports_audio is not True,
        }
        if any(unsent.values()) and any(one.role == "assistant" and one.model != model.name for one in messages):
            return frozenset()
        return frozenset(kind for kind, is_unsent in unsent.items() if is_unsent)

    def _update(self, messages: Sequence[Message], targets: dict[str, str]) -> None:
        """Index the messages added since the last update; if earlier ones or the *targets* changed, index all messages.

        The index also contains texts that are not part of a message, such as a prompt that the user can edit. These
        texts do not count toward the maximum size of the index; if a new index is created, the caller must add them
        again.
        """
        known = len(self._indexed)
        is_continued = known > 0 and len(messages) >= known and messages[known - 1] is self._indexed[-1]
        is_continued = is_continued and targets == self._index.targets
        limit = MAX_CHARACTERS + self._standing_size
        if not is_continued or not index_messages(self._index, messages[known:], limit=limit):
            self._index, self._standing_size = index_newest(messages, targets=targets), 0
        self._indexed = messages


def _names_in(tools: Iterable[Raw], names: set[str]) -> set[str]:
    """Return the *names* that occur as JSON strings in a server's tool definitions.

    Returns an empty set if there are more than 200 names. To limit the time, the search stops after comparing 20 MB of
    text, counted once for each name.
    """
    if len(names) > _MAX_EXPECTED_NAMES:
        return set()
    missing: dict[str, bytes] = {name: encode(name) for name in names}
    found: set[str] = set()
    left = _MAX_SEARCHED_BYTES
    for tool in tools:
        definition = bytes(tool)
        left -= len(missing) * len(definition)
        if not missing or left < 0:
            break
        found |= {name for name, text in missing.items() if text in definition}
        missing = {name: text for name, text in missing.items() if name not in found}
    return found


def _find_aliases(names: Iterable[str], configs: Sequence[ServerConfig]) -> frozenset[str]:
    """Return the other names in *configs* for the servers in *names*, as the value for `ArgumentOrigins.aliases`.

    Reads symbolic links from the file system.
    """
    found: set[str] = set()
    for name in names:
        aliases = find_aliases(name, configs)
        found |= {OTHER_SERVERS} if aliases is None else aliases
    return frozenset(found)
