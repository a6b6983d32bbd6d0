"""Tests with the part of the interop matrix that always runs; `python -m tests.peers.interop` runs all of it."""

import pytest

from mcphost.client import negotiation
from tests.conftest import skip_or_fail
from tests.peers import node
from tests.peers.interop import probes
from tests.peers.interop.peers import DELAYED_IN_TESTS, INTEROP_PEERS, Cell, always_run_cells

pytestmark = [pytest.mark.peer, pytest.mark.anyio]


@pytest.mark.parametrize("cell", always_run_cells(), ids=str)
async def test_everything_that_a_peer_supports_works(cell: Cell) -> None:
    try:
        cell.peer.command(cell.transport, cell.delay)  # installs it
    except node.PeersMissing as error:
        skip_or_fail(f"{cell} cannot be had: {error}")
    outcomes = await probes.run(cell)
    assert [outcome.probe for outcome in outcomes] == list(probes.ALL)
    assert [outcome for outcome in outcomes if not outcome.is_good] == []


def test_every_peer_of_the_npm_and_development_dependencies_is_always_run() -> None:
    cells = always_run_cells()
    assert {cell.peer.name for cell in cells} == {
        peer.name for peer in INTEROP_PEERS if peer.name.startswith(("TypeScript", "Python 2"))
    }
    assert {(cell.peer.name, cell.delay) for cell in cells if cell.delay} == set(DELAYED_IN_TESTS)


@pytest.mark.parametrize("name", ["TypeScript 2.x dual", "Python 2.x"])
async def test_a_peer_that_read_both_openings_at_once_is_used_in_the_era_that_it_is_in(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(negotiation.SECOND_OPENING_DELAYS, "hedged", 0.0)
    (cell,) = (cell for cell in always_run_cells() if str(cell) == f"{name} stdio")
    outcomes = await probes.run_session_probes(cell)
    assert [outcome for outcome in outcomes if not outcome.is_good] == []
    # The TypeScript SDK accepts the later opening, the Python SDK refuses it.
    assert ("dual" in outcomes[0].note) == name.startswith("TypeScript")
