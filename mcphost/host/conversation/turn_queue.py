"""Queue of turns: one at a time, run as tasks of the host."""

import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from mcphost.errors import McpHostError, ModelError, UsageError
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.conversation.turn import Turn, TurnOutcome
from mcphost.host.event_queue import EventBus
from mcphost.host.events import TurnFinished, TurnStarted
from mcphost.host.model_selection import ModelSelection
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.views import TurnResult
from mcphost.llm.messages import Message, Part, TextPart
from mcphost.llm.model import ChatModel
from mcphost.sanitize import replace_surrogates

_log = logging.getLogger(__name__)


class TurnQueue:
    """Runner of at most one turn at a time in the host's task group.

    `create_turn` creates a turn from a number and a model; `conversation` returns the open conversation.
    """

    def __init__(
        self,
        create_turn: Callable[[int, ChatModel], Turn],
        conversation: Callable[[], Conversation],
        model_selection: ModelSelection,
        events: EventBus,
        reviewer: ResultReviewer,
        wait_for_servers: Callable[[], Awaitable[None]],
    ) -> None:
        """*wait_for_servers* is awaited before the first round, after the message is shown."""
        self._wait_for_servers = wait_for_servers
        self._reviewer = reviewer
        self._create_turn = create_turn
        self._conversation = conversation
        self._model_selection = model_selection
        self._events = events
        self._numbers = itertools.count(1)
        self._scope: anyio.CancelScope | None = None
        self._tasks: TaskGroup | None = None

    def set_task_group(self, tasks: TaskGroup) -> None:
        """Set the task group of the turns."""
        self._tasks = tasks

    @property
    def is_running(self) -> bool:
        """Whether a turn is running."""
        return self._scope is not None

    def stop(self) -> bool:
        """Stop the running turn; return False if there is none."""
        if self._scope is None:
            return False
        self._scope.cancel()
        return True

    async def send(
        self, text: str | None, attachments: Sequence[Part], load_toggles: Callable[[], Awaitable[None]]
    ) -> TurnResult:
        """Run a turn, see Host.send; without a text, ask the model again with the present conversation.

        *load_toggles* is awaited in the turn, before the model is asked.
        """
        if self._scope is not None:
            raise UsageError("A turn is running.", "Wait for it, or stop it first.")
        if self._tasks is None:
            raise UsageError("The host is not running.", "Enter it with `async with` first.")
        done = anyio.Event()
        results: list[TurnResult] = []
        self._scope = anyio.CancelScope()

        async def work() -> None:
            try:
                reviewed = await self._prepare_attachments(attachments, load_toggles)
                results.append(await self._run(self._scope or anyio.CancelScope(), text, reviewed))
            finally:
                self._scope = None
                done.set()

        # The turn belongs to the host, so that it ends in order even if the frontend ends first.
        self._tasks.start_soon(work, name="turn")
        try:
            await done.wait()
        except BaseException:
            self.stop()
            raise
        return results[0] if results else TurnResult("stopped", "")

    async def _prepare_attachments(
        self, attachments: Sequence[Part], load_toggles: Callable[[], Awaitable[None]]
    ) -> Sequence[Part]:
        """Return the reviewed attachments; a stop during the review withholds them and skips the model."""
        scope = self._scope or anyio.CancelScope()
        with scope:
            await load_toggles()
            return await self._reviewer.review_attachments(attachments)
        self._scope = anyio.CancelScope()
        self._scope.cancel()
        return self._reviewer.withhold_attachments(attachments)

    async def _run(self, scope: anyio.CancelScope, text: str | None, attachments: Sequence[Part]) -> TurnResult:
        number = next(self._numbers)
        model = self._model_selection.model
        if text is None:
            user_messages = [message for message in self._conversation().messages if message.role == "user"]
            message = user_messages[-1] if user_messages else Message(role="user", parts=())
        else:
            message = Message(role="user", parts=(*attachments, TextPart(replace_surrogates(text))))
            message = await self._conversation().append(message, model.name if model else "")
        self._events.publish(TurnStarted(number, message, again=text is None))
        if model is None:
            return self._fail(
                number, ModelError("No model is chosen.", "Start with --model PROVIDER/MODEL, or try: mcphost demo"), 3
            )
        turn = self._create_turn(number, model)
        outcome = TurnOutcome("stopped")
        try:
            with scope:
                await anyio.lowlevel.checkpoint()  # a stop before the start skips the model
                await self._wait_for_servers()
                outcome = await turn.run()
        except McpHostError as error:
            return self._fail(number, error, error.exit_code, turn)
        except Exception as error:  # noqa: BLE001
            # The boundary of a turn: a bug must not end the conversation.
            _log.exception("turn %d", number)
            known_error = next(
                (inner for inner in getattr(error, "exceptions", ()) if isinstance(inner, McpHostError)), None
            )
            host_error = known_error or McpHostError(f"mcphost crashed: {error!r}.", "See the log for details.")
            return self._fail(number, host_error, host_error.exit_code, turn)
        self._events.publish(TurnFinished(number, outcome.outcome, turn.usage))  # pyright: ignore[reportArgumentType]
        code = 5 if turn.declined else 7 if outcome.outcome == "rounds" else 0
        return TurnResult(outcome.outcome, turn.text, turn.declined, exit_code=code)

    def _fail(self, number: int, error: McpHostError, exit_code: int, turn: Turn | None = None) -> TurnResult:
        text, declined = (turn.text, turn.declined) if turn else ("", 0)
        if turn:
            self._events.publish(TurnFinished(number, "failed", turn.usage, error.message, error.hint))
        else:
            self._events.publish(TurnFinished(number, "failed", error=error.message, hint=error.hint))
        return TurnResult("failed", text, declined, error.message, error.hint, exit_code)
