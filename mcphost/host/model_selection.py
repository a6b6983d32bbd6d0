"""The selected model, which is prepared in the background and can be changed between turns."""

from collections.abc import Callable
from contextlib import suppress

import anyio
import anyio.to_thread

from mcphost.config.profiles import switch_model
from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ModelChanged
from mcphost.host.lifetime import Lifetime
from mcphost.llm.model import ChatModel, ModelFacts
from mcphost.sanitize import sanitize_line
from mcphost.serialization import Raw

ASSUMED_WINDOW = 128_000
"""The context window that is assumed for a model whose window is unknown, in tokens."""

_MAX_NAME_LENGTH = 200

CreateModelFn = Callable[[ModelConfig], ChatModel]


class _Preload:
    """A model that is being loaded, or was loaded, because the user may select it soon."""

    def __init__(self, config: ModelConfig, model: ChatModel) -> None:
        self.config = config
        self.model = model
        self._scope = anyio.CancelScope()
        self._done = anyio.Event()

    async def run(self) -> None:
        """Load the model until `stop` is called; a failure is not reported."""
        try:
            with self._scope, suppress(ModelError):
                await self.model.load_facts()
        finally:
            self._done.set()

    async def stop(self) -> None:
        """Stop loading, and wait until it has stopped."""
        self._scope.cancel()
        await self._done.wait()


class ModelSelection:
    """The model used for the conversation, and a cache of models for other uses such as sampling."""

    def __init__(
        self,
        factory: CreateModelFn,
        config: ModelConfig,
        events: EventBus,
        lifetime: Lifetime,
        has_images: Callable[[], bool] = lambda: False,
        *,
        system_prompt: str = "",
    ) -> None:
        """Create a selection of the model *config*; *factory* creates the clients of this and other models.

        *has_images* returns whether the open conversation contains an image; it is called in a worker thread.
        *system_prompt* is the configured system prompt, "" for the default.
        """
        self.config = config
        self.system_prompt = system_prompt
        """The user's own system prompt, "" for the default; a change applies to the next request."""

        self.answer_schema = Raw(b"")
        """JSON Schema that answers should match, empty for none; a change applies to the next request."""

        self.model: ChatModel | None = factory(config) if config.name else None
        self._factory = factory
        self._cached_models: list[
            tuple[ModelConfig, ChatModel]
        ] = []  # a list, because a ModelConfig with headers is not hashable
        self._preloads: list[_Preload] = []
        self._previous_facts: ModelFacts | None = None
        self._has_images = has_images
        self._events = events
        self._lifetime = lifetime
        lifetime.on_close(self.close)

    @property
    def window(self) -> int:
        """The context window of the selected model in tokens; ASSUMED_WINDOW if it is unknown."""
        return (self.model.facts.context_window if self.model is not None else 0) or ASSUMED_WINDOW

    def describe_difference(self, earlier: str) -> str:
        """Return a sentence that names *earlier*, a model used earlier in a conversation, and the selected model.

        Returns "" if *earlier* is "", if both models are the same, or if no model is selected.
        """
        selected = self.model.name if self.model is not None else ""
        if not selected or earlier in ("", selected):
            return ""
        return f"This conversation used {earlier}; {selected} is selected."

    def get_model(self, config: ModelConfig) -> ChatModel:
        """Return a model for use outside the conversation, such as for sampling.

        The selected model is returned if it has the same name. Any other model is created once, cached, and closed
        together with the host. Raises ModelError if the model cannot be created.
        """
        if self.model is not None and config.name == self.config.name:
            return self.model
        for cached, model in self._cached_models:
            if cached == config:
                return model
        model = self._factory(config)
        self._cached_models.append((config, model))
        return model

    def get_named(self, name: str) -> ChatModel:
        """Return the model called *name* for use outside the conversation; if *name* is "", return the selected model.

        Raises ModelError if there is no such model, or if none is selected.
        """
        if name:
            return self.get_model(switch_model(self.config, name))
        if self.model is None:
            raise ModelError("No model is chosen.", "Choose one with /model.")
        return self.model

    def select(self, config: ModelConfig) -> None:
        """Select another model, start preparing it, and close the previous one in the background. Raises ModelError."""
        previous, self.model = self.model, self._factory(config) if config.name else None
        self.config = config
        if previous is not None:
            self._previous_facts = previous.facts
            self._lifetime.start_soon(previous.close, name="close model")
        self._start_discarding()
        self.prepare()

    def prepare(self) -> None:
        """Prepare the selected model in the background; a ModelChanged event reports that it is ready or has failed."""
        model = self.model
        if model is None:
            self._events.publish(ModelChanged("", "", "none"))
        else:
            self._events.publish(ModelChanged(model.name, model.label, "loading"))
            self._lifetime.start_soon(self._prepare, model, name="prepare model")

    def preload(self, config: ModelConfig) -> None:
        """Load a model's libraries in the background, because the user may select this model soon.

        Loading takes seconds, or much longer on a busy machine. No request is sent to a provider, and failures are
        not reported. Another model that was preloaded before is closed.
        """
        if any(one.config == config for one in self._preloads):
            return
        with suppress(ModelError):
            preload = _Preload(config, self._factory(config))
            self._start_discarding()
            self._preloads.append(preload)
            self._lifetime.start_soon(preload.run, name="preload model")

    def _start_discarding(self) -> None:
        if self._preloads:
            self._lifetime.start_soon(self._discard, tuple(self._preloads), name="close model")

    async def discard_preloaded(self) -> None:
        """Close the preloaded models, for example because the user has selected none of them."""
        await self._discard(tuple(self._preloads))

    async def _discard(self, preloads: tuple[_Preload, ...]) -> None:
        for preload in preloads:
            await preload.stop()
            await preload.model.close()
            self._preloads = [one for one in self._preloads if one is not preload]

    async def close(self) -> None:
        """Close the selected model, all cached models and all preloaded ones."""
        cached = (model for _, model in self._cached_models)
        for model in (self.model, *cached, *(preload.model for preload in self._preloads)):
            if model is not None:
                await model.close()

    async def _prepare(self, model: ChatModel) -> None:
        try:
            await model.prepare()
        except ModelError as error:
            self._events.publish(ModelChanged(model.name, model.label, "failed", str(error)))
            return
        if model is self.model:
            self._events.publish(ModelChanged(model.name, model.label, "ready"))
            previous, self._previous_facts = self._previous_facts, None
            if previous is not None:
                has_images = _loses_images(previous, model.facts) and await anyio.to_thread.run_sync(self._has_images)
                if losses := describe_losses(model.name, previous, model.facts, has_images=has_images):
                    self._events.notify("info", losses)


def describe_switch(name: str) -> str:
    """Return a hint that tells the user how to switch to the model *name*, which an earlier run used."""
    name = sanitize_line(name, _MAX_NAME_LENGTH)
    return f"To switch: /model {name} in the chat, or --model {name}."


def describe_losses(name: str, before: ModelFacts, after: ModelFacts, *, has_images: bool = False) -> str:
    """Describe what the model *name* lacks in comparison with the previous model; "" if nothing is known to be lacking.

    *before* and *after* are the facts about the previous and the new model. *has_images* means that the conversation
    contains images. If the new model accepts no images, the text also says that these images are not sent.
    """
    losses: list[str] = []
    if after.supports_tools is False and before.supports_tools is not False:
        losses.append(f"{name} supports no tools.")
    if _loses_images(before, after):
        losses.append(
            f"{name} accepts no images; those of this conversation are left out."
            if has_images
            else f"{name} accepts no images."
        )
    if 0 < after.context_window < before.context_window:
        losses += [
            f"The context of {name} is smaller: {after.context_window:,} instead of {before.context_window:,} tokens.",
            "A longer conversation must be summarized first.",
        ]
    return " ".join(losses)


def _loses_images(before: ModelFacts, after: ModelFacts) -> bool:
    return after.supports_images is False and before.supports_images is not False
