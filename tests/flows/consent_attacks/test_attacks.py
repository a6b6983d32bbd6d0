"""Tests that no attack can run, open, start or disclose anything without consent in the audit log."""

from pathlib import Path

import pytest

from tests.flows.conftest import OpenHost
from tests.flows.consent_attacks import arguments, changes, names, server_requests
from tests.flows.consent_attacks.attack import ATTACKS, AttackSetup, check_effects

pytestmark = pytest.mark.anyio
FILES = (arguments, server_requests, changes, names)


@pytest.mark.parametrize("name", ATTACKS)
async def test_an_attack_on_consent_fails(name: str, tmp_path: Path, open_host: OpenHost) -> None:
    way, setup = ATTACKS[name], AttackSetup(tmp_path, open_host)
    await way.run(setup)
    check_effects(way, setup.effects(), setup.audit_rows())


def test_at_least_forty_attacks_are_tried_each_with_a_description() -> None:
    assert {way.run.__module__ for way in ATTACKS.values()} == {file.__name__ for file in FILES}
    assert len({way.description for way in ATTACKS.values()}) == len(ATTACKS) >= 40
    assert all(way.description.endswith((".", "?")) for way in ATTACKS.values())
