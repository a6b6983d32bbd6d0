"""Whose time stands still while a person is asked, and whose does not."""

import math

import pytest

from mcphost.client.patience import Pauses, Waiting

pytestmark = pytest.mark.anyio
UNTIL = 1_000_000.0


class Scope:
    """Something with a deadline."""

    def __init__(self) -> None:
        self.deadline = UNTIL


def running(pauses: Pauses, ident: int) -> Scope:
    """A call that was just sent."""
    scope = Scope()
    pauses.begin(ident, Waiting(scope, UNTIL, UNTIL, 60))
    return scope


async def test_a_question_of_one_call_leaves_the_time_of_the_others_alone() -> None:
    pauses = Pauses(hard=False)
    asks, other = running(pauses, 1), running(pauses, 2)
    with pauses.person(1):
        assert asks.deadline == math.inf
        assert other.deadline == UNTIL
    assert UNTIL <= asks.deadline < UNTIL + 60


async def test_a_question_of_no_known_call_is_of_those_that_run_and_not_of_later_ones() -> None:
    pauses = Pauses(hard=False)
    first, second = running(pauses, 1), running(pauses, 2)
    with pauses.person(0):
        later = running(pauses, 3)
        assert (first.deadline, second.deadline, later.deadline) == (math.inf, math.inf, UNTIL)


async def test_two_questions_of_a_call_hold_it_until_both_are_answered() -> None:
    pauses = Pauses(hard=False)
    call = running(pauses, 1)
    with pauses.person(1):
        with pauses.person(1):
            pass
        assert call.deadline == math.inf
    assert call.deadline < math.inf


async def test_a_call_that_ended_while_its_person_was_asked_has_no_clock_to_set() -> None:
    pauses = Pauses(hard=False)
    call = running(pauses, 1)
    with pauses.person(1):
        pauses.end(1)
        call.deadline = UNTIL
    assert call.deadline == UNTIL


async def test_a_hard_limit_counts_the_time_of_a_person_too() -> None:
    pauses = Pauses(hard=True)
    call = running(pauses, 1)
    with pauses.person(1):
        assert call.deadline == UNTIL
