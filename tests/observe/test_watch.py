"""One application watched from several threads."""

import pytest

from ridgeline.measure.events import ApplicationEnded, WindowCommitted
from ridgeline.measure.measurement import Measurement
from ridgeline.observe.watch import Watch
from support.measure.partitioned import chain
from support.measure.story import begin, planned, windows


def watched(*events, now=lambda: 3.0):
    watch = Watch(now)
    for event in (planned(), *events):
        watch.observe(event)
    return watch


def test_a_frame_is_of_one_moment():
    overview = watched(*windows(3)).overview()
    assert overview["at"] == 3.0
    parts = ("latency", "criticalPath", "progress", "window")
    assert [overview["windowId"], *(overview[part]["windowId"] for part in parts)] == [2] * 5
    assert overview["info"]["stats"]["recoveryWindowId"] == 2
    assert {row["recoveryWindowId"] for row in overview["operators"]} == {2}
    parts = "windowId at window info latency criticalPath change promises recordAge progress operators"
    assert list(overview) == parts.split()


def test_subscribers_hear_of_events_in_order_once_they_are_folded():
    watch, heard = watched(), []

    def committed():
        return watch.info()["stats"]["windowsCommitted"]

    first = watch.subscribe(lambda event: heard.append(("first", event, committed())))
    watch.subscribe(lambda event: heard.append(("second", event, None)))

    story = windows(2)
    for event in story:
        watch.observe(event)
    for listener in ("first", "second"):
        assert [event for who, event, _ in heard if who == listener] == story
    counts = [count for _, event, count in heard if count and isinstance(event, WindowCommitted)]
    assert counts == [1, 2]
    first()
    first()
    watch.observe(ApplicationEnded(2.0, "stopped"))
    assert [who for who, event, _ in heard if isinstance(event, ApplicationEnded)] == ["second"]


def test_a_scrape_holds_frame_containers_and_sums():
    scrape = watched(*windows(3)).scrape()
    assert scrape.overview["windowId"] == 2
    assert [row["id"] for row in scrape.containers] == [0, 1, 2]
    computed = {node.title: round(total.compute, 6) for node, total in scrape.latencies}
    assert computed == {"read": 0.3, "sum": 0.3, "write": 0.3}
    assert scrape.overview["window"]["windowId"] == 2


def test_events_are_folded_when_there_is_time_window_by_window_or_when_somebody_asks():
    watch = watched()
    assert not watch.settle()
    for event in (*windows(2), *begin(2)):
        watch.observe(event)
    assert [watch.settle() for _ in range(4)] == [True, True, False, False]  # a window each

    for event in windows(3)[len(windows(2)) :]:
        watch.observe(event)
    assert watch.windows()[-1]["windowId"] == 2
    assert not watch.settle()

    watch.observe(ApplicationEnded(3.0, "stopped"))
    assert not watch.settle()


def test_what_cannot_be_folded_is_raised_by_the_next_report_and_left_out():
    watch = watched(*windows(1))
    watch.observe("no event")
    assert watch.windows()[-1]["windowId"] == 0
    with pytest.raises(AttributeError):
        watch.observe(begin(1)[0])
    assert watch.progress()["windowId"] == 1


@pytest.mark.parametrize("settled", [0, 1, 2])
def test_a_large_window_is_folded_as_a_whole_and_no_answer_has_half_of_one(settled):
    topology = chain(*(f"step{number}" for number in range(1_100)))
    events = [planned(topology=topology), *windows(2, topology=topology, busy=0.0001)]
    watch, measurement = Watch(lambda: 3.0), Measurement()
    for event in events:
        watch.observe(event)
        measurement.apply(event)
    assert [watch.settle() for _ in range(settled)] == [True, False][:settled]
    assert watch.windows() == measurement.windows()
    assert watch.critical_path() == measurement.critical_path()
    assert watch.info() == measurement.info(3.0)
    assert not watch.settle()


def test_events_of_the_kinds_that_a_subscriber_wants_are_all_that_it_gets():
    watch, few, all_of_them = watched(), [], []
    end = watch.subscribe(few.append, (WindowCommitted,))
    watch.subscribe(all_of_them.append)
    for event in windows(2):
        watch.observe(event)
    assert all_of_them == windows(2)
    assert few == [event for event in windows(2) if isinstance(event, WindowCommitted)]
    end()
    for event in windows(3)[len(windows(2)) :]:
        watch.observe(event)
    assert len(few) == 2
