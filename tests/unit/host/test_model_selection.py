"""Tests for switching models: features that the new model lacks are reported once it is ready."""

import anyio
import pytest

from mcphost.config.schema import ModelConfig
from mcphost.host.event_bus import EventBus
from mcphost.host.events import HostEvent, NoticeEvent
from mcphost.host.lifetime import Lifetime
from mcphost.host.model_selection import ModelSelection, describe_losses
from mcphost.llm.model import ModelFacts
from tests.fakes.model import ScriptedModel

pytestmark = pytest.mark.anyio

LARGE = ModelFacts(context_window=200_000, supports_tools=True, supports_images=True)
SMALL = ModelFacts(context_window=8_000, supports_tools=False, supports_images=False)


def create_model(config: ModelConfig) -> ScriptedModel:
    model = ScriptedModel()
    model.name = config.name
    model.facts = SMALL if config.name == "a/small" else LARGE
    return model


async def switch_models(first: str, second: str, *, has_images: bool = False) -> list[HostEvent]:
    """Switch from the model *first* to *second*, with an image in the conversation or not; return the events."""
    events = EventBus()
    async with Lifetime() as lifetime:
        selection = ModelSelection(
            create_model, ModelConfig(name=first), events, lifetime, has_images=lambda: has_images
        )
        feed = events.subscribe()
        selection.select(ModelConfig(name=second))
        await anyio.wait_all_tasks_blocked()
        seen = feed.drain()
        while second == "a/small" and not isinstance(seen[-1], NoticeEvent):
            with anyio.fail_after(20):  # a worker thread looks for images
                seen.append(await anext(feed))
        return seen


async def test_what_the_new_model_cannot_do_is_reported() -> None:
    notices = [event for event in await switch_models("a/large", "a/small") if isinstance(event, NoticeEvent)]
    assert len(notices) == 1
    assert notices[0].text == (
        "a/small supports no tools. a/small accepts no images. The context of a/small is smaller: 8,000 instead of "
        "200,000 tokens. A longer conversation must be summarized first."
    )


async def test_images_are_said_to_be_left_out_only_if_the_conversation_has_some() -> None:
    (notice,) = [
        event for event in await switch_models("a/large", "a/small", has_images=True) if isinstance(event, NoticeEvent)
    ]
    assert "a/small accepts no images; those of this conversation are left out." in notice.text


async def test_a_model_that_can_do_more_is_not_commented() -> None:
    assert not [event for event in await switch_models("a/small", "a/large") if isinstance(event, NoticeEvent)]


def test_unknown_facts_are_no_loss() -> None:
    assert describe_losses("a", ModelFacts(), LARGE) == ""
    assert describe_losses("a", LARGE, ModelFacts()) == ""
    assert describe_losses("a", SMALL, SMALL) == ""
