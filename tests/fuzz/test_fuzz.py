"""Tests with a short fuzzing run and with inputs that longer runs found; see `python -m tests.fuzz`."""

import pytest

from tests.fuzz import fuzz_http_parser, fuzz_http_streams, fuzz_stdio


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_lines_end_calls_and_never_the_session(seed: int) -> None:
    report = fuzz_stdio.run(10_000, seed)
    assert report.faults == [], report.summary("lines")
    assert report.inputs == 10_000
    # Otherwise, the mutations could be so strong that nothing beyond the first check is tested.
    assert report.outcomes["results"] > 500
    assert report.outcomes["sessions survived"] > 0.8 * report.sessions
    assert {"MalformedMessage", "RequestRefused", "changes heard"} <= set(report.outcomes)


@pytest.mark.parametrize("seed", [1, 2])
def test_mutated_event_streams_end_calls_and_never_the_session(seed: int) -> None:
    report = fuzz_http_streams.run(2_000, seed)
    assert report.faults == [], report.summary("streams")
    assert report.inputs >= 2_000
    assert report.outcomes["results"] > 200
    survived, forgotten = report.outcomes["sessions survived"], report.outcomes["sessions forgotten by the server"]
    assert survived + forgotten == report.sessions
    assert survived > 0.5 * report.sessions
    assert {"MalformedMessage", "ResponseInterrupted", "HttpStatusError", "changes heard"} <= set(report.outcomes)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_http_answer_is_accepted_that_h11_refuses_and_the_others_read_alike(seed: int) -> None:
    report = fuzz_http_parser.run(15_000, seed)
    assert report.differences == []
    assert report.outcomes["equal"] > 3_000
    assert report.outcomes["both refuse"] > 3_000
    assert report.outcomes["refused where h11 accepts"] < 1_000
