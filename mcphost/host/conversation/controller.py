"""The API for conversations: send, stop and retry turns, and list and open conversations.

At most one turn runs at a time.
"""

import hashlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import anyio
import anyio.lowlevel

from mcphost.errors import ConfigError, McpHostError, StoreError, UsageError
from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.conversation_messages import Conversation
from mcphost.host.event_bus import EventBus
from mcphost.host.events import MessagesInserted, TurnFinished, TurnOutcome, TurnStarted
from mcphost.host.lifetime import Lazy, Lifetime
from mcphost.host.model_selection import ModelSelection
from mcphost.host.page_contexts import PageContexts
from mcphost.host.server_views import TurnResult
from mcphost.host.servers.servers import ServerStartup
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.llm.messages import Message, Part, TextPart
from mcphost.llm.model import Usage
from mcphost.log import to_mcphost_error

if TYPE_CHECKING:
    from mcphost.host.conversation.rewind import ConversationBranches
    from mcphost.host.conversation.turn import Turn, TurnParts
    from mcphost.store.compactions import Compaction
    from mcphost.store.conversations import ConversationInfo, ConversationStore
    from mcphost.store.manual_calls import AddManualCallFn, StoredManualCall

MAX_SYSTEM_PROMPT = 200_000
"""The maximum length of a system prompt in characters, as in the configuration."""
CONTINUE_PROMPT = "Your answer was cut off. Continue exactly where it stopped."
T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Insertion(NamedTuple):
    """Messages inserted at index `start` of a conversation, remembered so that the insertion can be undone."""

    conversation: Conversation
    start: int
    messages: tuple[Message, ...]

    def is_at_end(self) -> bool:
        return tuple(self.conversation.messages[self.start :]) == self.messages


class _Work:
    """Work on the open conversation that the user can stop, such as a turn or a compaction.

    Only code in a `stoppable` block is cancelled, so that data can still be saved afterwards.
    """

    def __init__(self) -> None:
        self._is_stopped = False
        self._scope: anyio.CancelScope | None = None

    def stop(self) -> None:
        """Cancel the running `stoppable` block, if any; each later block is cancelled at its first `await`."""
        self._is_stopped = True
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def stoppable(self) -> Generator[None]:
        """Return a context manager whose block ends early, without an error, when `stop` is called."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            if self._is_stopped:
                scope.cancel()
            try:
                yield
            finally:
                self._scope = None


class ConversationController:
    """Controller that runs turns in the open conversation, and lists and opens stored conversations."""

    def __init__(  # noqa: PLR0913 - what turns and changes of the conversation need
        self,
        active: ActiveConversation,
        store: "Lazy[ConversationStore]",
        *,
        turn_parts: "Lazy[TurnParts]",
        model_selection: ModelSelection,
        startup: ServerStartup,
        tool_toggles: ToolToggles,
        events: EventBus,
        lifetime: Lifetime,
        audit: AuditLog,
        index_copy: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._audit = audit
        self._index_copy = index_copy
        self._active = active
        self._store = store
        self._turn_parts = turn_parts
        self._model_selection = model_selection
        self._startup = startup
        self._tool_toggles = tool_toggles
        self._events = events
        self._lifetime = lifetime
        self._numbers = itertools.count(1)
        self._work: _Work | None = None
        self._steering: list[tuple[Part, ...]] = []
        self._insertion: _Insertion | None = None

    # -- the open conversation
    @cached_property
    def branches(self) -> "ConversationBranches":
        """Operations that rewind, fork and switch branches of the open conversation; imported on first use."""
        from mcphost.host.conversation.rewind import ConversationBranches

        def index_soon() -> None:
            self._lifetime.start_soon(self._index_copy, name="search index of a copy")

        return ConversationBranches(self._active, self._store.get(), index_soon)

    @property
    def id(self) -> str:
        """The id of the open conversation; "" until it has a message."""
        return self._active.id

    @property
    def reserved_id(self) -> str:
        """The id of the open conversation, or the id that it will get when its first message is added."""
        return self._active.current.reserved_id

    @property
    def title(self) -> str:
        """The title of the open conversation; "" until it has a message."""
        return self._active.current.title

    def set_title_prefix(self, prefix: str) -> None:
        """Set the text with which the title of a new conversation begins; the title is made with the first message.

        If the open conversation already has messages, its title is not changed. However, unless *prefix* is "", a title
        with the prefix of `mcphost run` then keeps this prefix when the user sends another message.
        """
        self._active.current.title_prefix = prefix

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the open conversation, oldest first."""
        return self._active.messages

    @property
    def manual_calls(self) -> "Sequence[StoredManualCall]":
        """The tool calls that the user made in the open conversation, oldest first; they are not sent to the model."""
        return self._active.current.manual_calls

    @property
    def page_contexts(self) -> PageContexts:
        """The contexts that open interactive pages (MCP Apps) provide; they are sent with the next user message."""
        return self._active.page_contexts

    def start_manual_call(self) -> "AddManualCallFn":
        """Return a function that saves a tool call made by the user in the conversation that is open now.

        Pass the finished call to the function, and the call with its result for the page if the tool has an interactive
        page. The function returns the conversation's id, and the host saves the call in the background. The call is
        saved in this conversation even if another one has been opened since. It is not sent to the model.
        """
        return self._active.start_manual_call()

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self._active.is_busy

    @property
    def can_be_resumed(self) -> bool:
        """Whether the open conversation is stored, so that a later run can open it."""
        return bool(self.id) and not self._store.get().is_in_memory and self._active.current.is_stored

    async def list_stored(
        self, limit: int = 100, *, prefix: str = "", with_runs: bool = True
    ) -> "tuple[ConversationInfo, ...]":
        """Return stored conversations, newest first. Raises StoreError.

        If *prefix* is "", at most *limit* conversations are returned. If *with_runs* is false, conversations of
        `mcphost run` are left out, unless they were renamed or pinned. If *prefix* is given, the conversations whose id
        starts with it are returned, at most 100; *limit* and *with_runs* then have no effect.
        """
        if prefix:
            return await self._store.get().find_by_prefix(prefix)
        return await self._store.get().list_recent(limit, with_runs=with_runs)

    async def open(self, conversation_id: str) -> None:
        """Open a stored conversation.

        Raises UsageError if the id is unknown or a turn is running, and StoreError if the conversation cannot be
        loaded.
        """
        await self._active.open(conversation_id)

    def open_new(self) -> None:
        """Open a new, empty conversation. Raises UsageError while a turn is running."""
        self._active.open_new()

    # -- messages of prompts
    async def insert(self, messages: Sequence[Message]) -> None:
        """Add the messages of an MCP prompt to the end of the open conversation.

        The messages can be from the user and from the assistant. The model does not answer them automatically; if the
        last message is from the user, call `continue_turn` to get an answer. Raises UsageError while a turn is running.
        """

        async def add(_: _Work) -> None:
            conversation = self._active.current
            before = len(conversation.messages)
            added = [await conversation.append(message) for message in messages]
            self._insertion = _Insertion(conversation, before, tuple(added))
            self._events.publish(MessagesInserted(tuple(added)))

        await self._run_alone(add)

    async def has_page_results(self) -> bool:
        """Return whether a stored result of the conversation has an interactive page; False if the store fails."""
        try:
            return bool(self.id) and await self._store.get().has_page_results(self.id)
        except StoreError as error:
            _log.warning("the calls with a page cannot be listed: %s", error)
            return False

    @property
    def can_undo_insert(self) -> bool:
        """Whether the open conversation still ends with messages that `insert` added since mcphost started."""
        last = self._insertion
        return last is not None and last.conversation is self._active.current and last.is_at_end()

    async def undo_insert(self) -> int:
        """Remove the messages that `insert` added last, and return how many were removed.

        The store keeps them as a branch. Raises UsageError while a turn is running or if `can_undo_insert` is false,
        and StoreError.
        """
        last = self._insertion
        if last is None or not self.can_undo_insert:
            raise UsageError("There is no inserted prompt to undo.", "Go back to an earlier message with /rewind.")
        await self._active.rewind(last.start)
        self._insertion = None
        return len(last.messages)

    # -- corrections
    async def retry(self, *, can_reuse: bool = True) -> TurnResult:
        """Let the selected model answer the last user message again; the earlier answer is kept as a branch.

        A message that mcphost wrote with the role of the user, such as the request to continue an answer, does not
        count as a user message; it is part of the earlier answer.

        If *can_reuse* is true and the model repeats read-only calls of the earlier answer, their results are reused;
        otherwise all tools are called again. Raises UsageError if there is no user message, a message is
        unsaved, a turn is already running, or the host is not open. Raises StoreError if the branch cannot be stored.
        """
        messages = self._active.messages
        places = reversed(range(len(messages)))
        count = next((at + 1 for at in places if messages[at].is_from_user), 0)
        if not count:
            raise UsageError("There is no message to answer again.", "Write a message.")
        await self._active.rewind(count)
        return await self.send(None, can_reuse=can_reuse)

    # -- system prompt
    @property
    def system_prompt(self) -> str:
        """The system prompt that the user set for the open conversation; "" if the configured one is used."""
        return self._active.current.system_prompt

    @property
    def can_undo_system_prompt(self) -> bool:
        """Whether the user has changed the system prompt of the open conversation."""
        return self._active.current.can_undo_system_prompt

    async def set_system_prompt(self, text: str) -> None:
        """Set the open conversation's system prompt from the next turn on; "" selects the configured one.

        Raises UsageError while a turn is running or if the text is too long, ConsentDenied if a required audit row
        cannot be written, and StoreError.
        """
        self._active.require_idle()
        if len(text) > MAX_SYSTEM_PROMPT:
            raise UsageError(
                f"The system prompt has {len(text):,} characters; at most {MAX_SYSTEM_PROMPT:,} are allowed.",
                "Shorten it.",
            )
        from mcphost.host.message_text import clean_text

        text = clean_text(text.strip())
        await self._record_system_prompt("changed", text)
        await self._active.current.set_system_prompt(text)

    async def _record_system_prompt(self, event: str, text: str) -> None:
        """Record in the audit log that the system prompt is changed to *text*; *event* is the recorded event.

        Only a digest of the text is recorded. Raises ConsentDenied if a required row cannot be written.
        """
        digest = hashlib.sha256(text.encode()).hexdigest() if text else ""
        subject = AuditSubject(kind="system_prompt", name="configured" if not text else "own", definition=digest)
        await self._audit.record_event(subject, event, who="person", detail={"characters": len(text)})

    async def undo_system_prompt(self) -> None:
        """Undo the last change of the open conversation's system prompt.

        Raises UsageError while a turn is running or if nothing was changed, ConsentDenied if a required audit row
        cannot be written, and StoreError.
        """
        self._active.require_idle()
        if not self.can_undo_system_prompt:
            raise UsageError("The system prompt of this conversation was not changed.", "Change it with /system.")
        await self._record_system_prompt("taken back", self._active.current.previous_system_prompt)
        await self._active.current.undo_system_prompt()

    # -- summaries
    @property
    def compaction(self) -> "Compaction | None":
        """The summary that replaces the beginning of the open conversation in model requests; None if there is none."""
        return self._active.current.compaction

    @property
    def numbers(self) -> Sequence[int]:
        """The number under which each message of the open conversation is stored; 0 for an unsaved message."""
        return self._active.current.numbers

    @property
    def covered(self) -> int:
        """The number of leading messages that a summary replaces in model requests; 0 without a summary."""
        return self._active.current.covered

    async def compact(self, instructions: str = "") -> bool:
        """Let the model summarize all but the last messages; return whether the user accepted the summary.

        *instructions* are added to the prompt for the model. Raises UsageError while a turn is running or if there is
        nothing to summarize, ModelError, or StoreError. An error or a call to `stop` leaves everything unchanged.
        """

        async def compact(work: _Work) -> bool:
            with work.stoppable():
                return (await self._turn_parts.get().compactor.compact(instructions)).is_changed
            return False

        return await self._run_alone(compact) or False

    async def undo_compaction(self) -> "Compaction":
        """Stop using the current summary, so that the messages it replaced are sent again; return the summary.

        Raises UsageError while a turn is running or if no summary is in use, and StoreError.
        """
        self._active.require_idle()
        return await self._turn_parts.get().compactor.undo()

    # -- turns
    def stop(self) -> bool:
        """Cancel the running turn; return False if there is none."""
        if self._work is None:
            return False
        self._work.stop()
        return True

    def send_to_background(self, call: str) -> None:
        """Let the running turn continue without waiting for this call; its result is added to the conversation later.

        Raises UsageError if *call* is not a running call by the model, or if too many calls are in the background.
        """
        self._turn_parts.get().scheduler.send_to_background(call)

    def cancel_background(self) -> bool:
        """Cancel all tool calls in the background; return False if there are none."""
        parts = self._turn_parts.created
        return parts is not None and parts.scheduler.cancel_background()

    def steer(self, text: str, attachments: Sequence[Part] = ()) -> bool:
        """Queue a user message for the running turn; return False if no turn is running.

        If the attachments require a review, the user reviews them first. The message is then added after the next tool
        results, and a UserMessageAdded event is published. If the turn ends before the next tool results, the message
        is dropped.
        """
        if self._work is not None:
            self._steering.append((*attachments, TextPart(text)))
        return self._work is not None

    @property
    def can_continue(self) -> bool:
        """Whether the last answer was cut off, or the last message is unanswered; see `continue_turn`."""
        messages = self._active.current.messages
        return bool(messages) and (messages[-1].role != "assistant" or messages[-1].cut)

    async def continue_turn(self) -> TurnResult:
        """Ask the model to continue an answer that was cut off, or to answer an unanswered last message.

        Raises UsageError if the last answer is complete, a turn is already running, or the host is not open.
        """
        if not self.can_continue:
            raise UsageError("There is no answer that was cut off.", "Write a message.")
        text = CONTINUE_PROMPT if self._active.current.messages[-1].role == "assistant" else None
        run_turn = partial(
            self._run_turn, parts=self._turn_parts.get(), text=text, attachments=(), can_reuse=True, is_automatic=True
        )
        return await self._run_alone(run_turn) or TurnResult("stopped", "")

    async def send(
        self,
        text: str | None,
        attachments: Sequence[Part] = (),
        *,
        can_reuse: bool = True,
        is_automatic: bool = False,
    ) -> TurnResult:
        """Run one turn: add the user message, then let the model answer and call tools until it is done.

        If *text* is None, no message is added, and the model answers the existing messages. See `retry` for
        *can_reuse*. *is_automatic* means that mcphost, not the user, wrote *text*. A failure is described in the result
        instead of being raised. Raises UsageError if a turn is already running or the host is not open. Cancelling the
        caller stops the turn.
        """
        run_turn = partial(
            self._run_turn,
            parts=self._turn_parts.get(),
            text=text,
            attachments=attachments,
            can_reuse=can_reuse,
            is_automatic=is_automatic,
        )
        return await self._run_alone(run_turn) or TurnResult("stopped", "")

    async def _run_alone(self, run: Callable[[_Work], Awaitable[T]]) -> T | None:
        """Run a turn, or other work that must not overlap with a turn; return None if the host closes before it ends.

        The work runs as a task of the host, so that the work can clean up even if the frontend exits first. Raises
        UsageError if a turn is already running or the host is not open, and any McpHostError raised by *run*. Any other
        exception is logged and raised as an McpHostError. Cancelling the caller stops the work.
        """
        if self._work is not None:
            raise UsageError("The model is still answering.", "Wait for it, or stop it first.")
        if self._lifetime.tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        done = anyio.Event()
        results: list[T] = []
        errors: list[McpHostError] = []
        self._work = work = _Work()
        self._active.is_busy = True

        async def run_to_end() -> None:
            try:
                results.append(await run(work))
            except Exception as error:  # noqa: BLE001 - a bug here must not end the host
                errors.append(to_mcphost_error(error, _log, "a turn or a change of the conversation"))
            finally:
                self._work, self._active.is_busy = None, False
                self._steering.clear()
                done.set()
            await self._deliver_background_results()

        self._lifetime.tasks.start_soon(run_to_end, name="turn")
        try:
            await done.wait()
        except BaseException:
            self.stop()
            raise
        if errors:
            raise errors[0]
        return results[0] if results else None

    async def _deliver_background_results(self) -> None:
        if (parts := self._turn_parts.created) is not None:
            try:
                await parts.background.deliver()
            except Exception as error:  # noqa: BLE001 - a bug here must not end the host
                to_mcphost_error(error, _log, "results of background calls")

    async def _prepare_attachments(
        self, work: _Work, parts: "TurnParts", attachments: Sequence[Part]
    ) -> Sequence[Part]:
        """Let the user review the attachments; return them, with a note in place of each withheld attachment.

        If the turn is stopped during the review, all attachments are withheld.
        """
        with work.stoppable():
            await self._tool_toggles.load()
            return await parts.reviewer.review_attachments(attachments)
        return parts.reviewer.withhold_attachments(attachments)

    async def _run_turn(
        self,
        work: _Work,
        *,
        parts: "TurnParts",
        text: str | None,
        attachments: Sequence[Part],
        can_reuse: bool,
        is_automatic: bool = False,
    ) -> TurnResult:
        """Prepare and run a turn; a failure is described in the result, not raised.

        If *text* is None, the model answers the existing messages. *can_reuse* allows the turn to reuse recorded
        results of read-only calls. *is_automatic* means that mcphost wrote *text* (see `Message`).
        """
        from mcphost.host.budget.budget_limits import BudgetReached
        from mcphost.host.conversation.turn import Turn
        from mcphost.host.message_text import clean_parts

        await parts.tool_pipeline.recorded.begin_turn(is_allowed=can_reuse)
        contexts = self._active.page_contexts
        # If the message is not added, the contexts wait for the next one.
        with contexts.take(attachments) if text is not None and not is_automatic else nullcontext(()) as taken:
            reviewed = await self._prepare_attachments(work, parts, (*attachments, *taken))
            number = next(self._numbers)
            model, conversation = self._model_selection.model, self._active.current
            await parts.background.deliver_in_turn()
            if text is None:
                latest = (message for message in reversed(conversation.messages) if message.role == "user")
                message = next(latest, Message(role="user", parts=()))
            else:
                words = await clean_parts((*reviewed, TextPart(text)))
                message = Message(role="user", parts=words, is_automatic=is_automatic)
                message = await conversation.append(message, model.name if model else "")
        self._events.publish(TurnStarted(number, message, again=text is None))
        if model is None:
            hint = "Start with --model PROVIDER/MODEL, or try: mcphost demo"
            return self._fail(number, ConfigError("No model is chosen.", hint))
        turn = Turn(number, model=model, conversation=conversation, parts=parts, page_contexts=contexts,
                    steering=self._steering)  # fmt: skip
        outcome: TurnOutcome = "stopped"
        try:
            with work.stoppable():
                await anyio.lowlevel.checkpoint()  # if the turn is already stopped, do not call the model
                await parts.instructions.refresh()
                await parts.hooks.refresh()
                await self._startup.wait(model.prepare)
                outcome = await turn.run()
        except BudgetReached as error:
            return self._fail(number, error, turn, outcome="budget")
        except McpHostError as error:
            return self._fail(number, error, turn)
        except Exception as error:  # noqa: BLE001
            # Catch everything at the boundary of a turn: a bug must not end the conversation.
            host_error = to_mcphost_error(error, _log, f"turn {number}")
            return self._fail(number, host_error, turn)
        self._events.publish(TurnFinished(number, outcome, turn.usage))
        if parts.settings.titles.mode == "model" and outcome == "done" and conversation.is_newly_titled:
            self._lifetime.start_soon(parts.title_writer.get().write, conversation, name="title of a conversation")
        return TurnResult(outcome, turn.text, turn.declined)

    def _fail(
        self,
        number: int,
        error: McpHostError,
        turn: "Turn | None" = None,
        *,
        outcome: Literal["failed", "budget"] = "failed",
    ) -> TurnResult:
        text, declined, usage = (turn.text, turn.declined, turn.usage) if turn else ("", 0, Usage())
        self._events.publish(TurnFinished(number, outcome, usage, error.message, error.hint))
        return TurnResult(outcome, text, declined, error)
