"""Stories of attempts in slots: begun, reported, lost."""

from dataclasses import replace

from ridgeline.api.errors import Failure
from ridgeline.plan.protocol import WindowRequest
from ridgeline.stram.control import AttemptFailed
from ridgeline.stram.slot_attempts import SlotAttempts

LOST = Failure("app", "", 0, -1, "slot 1", "its process died")


def request(window, attempt=0, *, states=False):
    return WindowRequest(window, attempt, 0, states={} if states else None)


def failed(window, attempt=0):
    return AttemptFailed(window, attempt, replace(LOST, window_id=window))


def running(*windows):
    """Attempts 0 at these windows are told, the first one with states."""
    flight = SlotAttempts({0: 0, 1: 0})
    for number, window in enumerate(windows):
        asked = request(window, states=not number)
        assert list(flight.begin(asked, complete=True)) == [asked]
    return flight


def test_a_window_is_over_once_each_container_has_reported():
    flight = running(4, 5)
    assert flight.reported(4, 0, 0, 1.0) is not None
    assert flight.reported(4, 0, 0, 2.0) is None
    assert flight.reported(5, 0, 0, 3.0) is not None
    assert flight.runs(4, 0)
    assert flight.reported(4, 0, 1, 4.0) is not None
    assert not flight.runs(4, 0)
    assert flight.runs(5, 0)


def test_reports_of_other_attempts_count_for_nothing():
    flight = running(4)
    assert list(flight.begin(request(4, 1, states=True), complete=True)) == [request(4, 1, states=True)]
    assert [flight.reported(*one, 0.0) for one in ((4, 0, 0), (4, 0, 1), (3, 0, 1))] == [None] * 3
    assert flight.runs(4, 1)


def test_requests_wait_for_all_slots_in_their_order():
    flight = SlotAttempts({0: 0, 1: 0})
    asked = [request(4, states=True), request(5), request(6)]
    for one in asked:
        assert not flight.begin(one, complete=False)
    assert list(flight.all_there()) == asked
    assert not flight.all_there()


def test_a_lost_slot_fails_the_oldest_window_in_flight_or_the_one_to_blame():
    assert running(4, 5, 6).failed(LOST) == failed(4)
    blamed = replace(LOST, window_id=5, operator="sum")
    assert running(4, 5, 6).failed(blamed) == AttemptFailed(5, 0, blamed)


def test_after_a_loss_nothing_runs_until_a_request_has_states():
    flight = running(4)
    assert flight.failed(LOST) == failed(4)
    assert not flight.runs(4, 0)
    assert not flight.begin(request(5), complete=False)
    again = request(4, 1, states=True)
    assert not flight.begin(again, complete=False)
    assert not flight.begin(request(5, 1), complete=False)
    assert list(flight.all_there()) == [again, request(5, 1)]
    assert flight.runs(5, 1)


def test_a_slot_that_is_lost_between_windows_costs_no_attempt_but_the_next_one_needs_states():
    flight = running(4)
    flight.reported(4, 0, 0, 0.0)
    flight.reported(4, 0, 1, 0.0)
    assert flight.failed(LOST) == failed(-1, -1)
    assert flight.failed(LOST) is None, "one loss is told once"
    assert not any(flight.begin(request(window), complete=True) for window in (5, 6, 7, 8))
    again = request(5, 1, states=True)
    assert list(flight.begin(again, complete=True)) == [again]
    assert flight.failed(LOST) == failed(5, 1)
    assert not flight.begin(request(6, 1), complete=True)


def test_a_second_slot_that_is_lost_with_the_first_costs_no_second_attempt():
    flight = running(4)
    assert flight.failed(LOST) == failed(4)
    again = request(4, 1, states=True)
    assert not flight.begin(again, complete=False)
    assert flight.failed(LOST) is None
    assert list(flight.all_there()) == [again]


def test_between_a_loss_and_a_request_with_states_nothing_fails_again_and_nothing_runs():
    flight = running(4)
    assert flight.failed(LOST) == failed(4)
    assert flight.failed(LOST) is None
    assert not flight.all_there(), "slots come back"
    assert not flight.begin(request(5), complete=True)
