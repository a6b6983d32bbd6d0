"""Nothing runs, answers, opens or starts without a recorded consent, whichever of many ways around it is tried."""

from pathlib import Path

import pytest

from tests.flows.around_consent import arguments, asks, changes, names
from tests.flows.around_consent.scene import WAYS, Scene, judge
from tests.flows.conftest import OpenHost

pytestmark = pytest.mark.anyio
FILES = (arguments, asks, changes, names)


@pytest.mark.parametrize("name", WAYS)
async def test_a_way_around_consent_leads_nowhere(name: str, tmp_path: Path, open_host: OpenHost) -> None:
    way, scene = WAYS[name], Scene(tmp_path, open_host)
    await way.go(scene)
    judge(way, scene.seen(), scene.rows())


def test_at_least_forty_ways_are_tried_each_told_in_a_sentence_of_its_own() -> None:
    assert {way.go.__module__ for way in WAYS.values()} == {file.__name__ for file in FILES}
    assert len({way.sentence for way in WAYS.values()}) == len(WAYS) >= 40
    assert all(way.sentence.endswith((".", "?")) for way in WAYS.values())
