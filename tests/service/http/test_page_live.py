"""The live stream of pages: one rendering for all, and no memory for those that are slow or gone."""

import asyncio
import json

import pytest

from ridgeline.measure.events import ApplicationEnded, SparkTrigger
from ridgeline.service.page import live
from ridgeline.service.page.live import LiveStream, PageState
from support.service.living import living
from support.service.watched import feed, payments, watched
from support.waiting import PATIENCE_SECONDS


@pytest.fixture
def rendered(monkeypatch):
    """How often a state was made."""
    made = []
    of = PageState.of

    def counting(self, plan):
        made.append(1)
        return of(self, plan)

    monkeypatch.setattr(PageState, "of", counting)
    return made


def events_of(chunk):
    """The names and the data of the events in a chunk."""
    lines = chunk.decode().splitlines()
    names = [line[7:] for line in lines if line.startswith("event: ")]
    return list(
        zip(names, [json.loads(line[6:]) for line in lines if line.startswith("data: ")], strict=True)
    )


@pytest.fixture
def calm(monkeypatch):
    """Nothing is rendered because time has passed."""
    monkeypatch.setattr(live, "IDLE_SECONDS", PATIENCE_SECONDS)


def test_a_window_of_which_more_is_known_later_is_sent_again(calm):
    async def main():
        watch, plan, rest, now = watched(until=2)
        stream = LiveStream(watch, lambda: plan)
        page = stream.events(100)
        [(_, whole)] = events_of(await anext(page))
        [last] = [one for one in whole["windows"] if one["windowId"] == 1]
        feed(watch, now, SparkTrigger(now.seconds, 1, last["triggeredAt"] - 2.0, {"triggerExecution": 3.0}))
        feed(watch, now, *rest)
        [(_, delta)] = events_of(await anext(page))
        [changed] = delta["changed"]
        assert changed["windowId"] == 1
        assert changed["latencyMs"] > last["latencyMs"] + 1000
        assert changed == next(one for one in watch.windows() if one["windowId"] == 1)
        await page.aclose()
        stream.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))


def test_windows_that_have_left_the_page_do_not_come_again(monkeypatch):
    """Where more of them are kept than the page has, as with several regions, or a longer history."""
    monkeypatch.setattr(live, "WINDOWS", 5)
    monkeypatch.setattr(live, "_NEW", 1)

    async def main():
        watch, plan, rest, now = watched(payments(10), until=7)
        stream = LiveStream(watch, lambda: plan)
        page = stream.events(100)
        [(_, whole)] = events_of(await anext(page))
        assert [one["windowId"] for one in whole["windows"]] == [2, 3, 4, 5, 6]
        feed(watch, now, *rest)
        added = []
        while not added or added[-1] < 9:
            for _, data in events_of(await anext(page)):
                added += [one["windowId"] for one in data["added"]]
        assert added == [7, 8, 9]
        await page.aclose()
        stream.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))


@pytest.mark.slow
def test_a_page_that_is_slow_gets_all_at_once_and_nothing_waits_for_it(rendered):
    async def main():
        with living() as application:
            stream = LiveStream(application.watch, lambda: application.run.plan)
            slow, quick = stream.events(100), stream.events(100)
            [(name, state)] = events_of(await anext(slow))
            assert name == "whole"
            await anext(quick)
            taken = 0
            while taken < 5:  # a chunk may only say that the line is alive
                taken += len(events_of(await anext(quick)))
            caught_up = events_of(await anext(slow))
            assert taken <= len(caught_up) <= taken + 1
            assert {name for name, _ in caught_up} == {"delta"}
            shared = stream._feeds[100]
            taken = 0
            while taken < 20:  # events, as a chunk may only say that the line is alive
                taken += len(events_of(await anext(quick)))
                assert len(shared._patches) <= 16
                assert len(shared.newest.windows) <= 1000
            [(name, again)] = events_of(await anext(slow))
            assert name == "whole"
            ids = [window["windowId"] for window in again["windows"]]
            assert ids == list(range(ids[0], ids[-1] + 1))
            assert ids[-1] > len(state["windows"])
            await slow.aclose()
            await quick.aclose()
            count = len(rendered)
            stream.close()
            await asyncio.sleep(0)
            assert len(rendered) == count

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))


def test_a_stream_that_cannot_be_made_ends_without_saying_that_the_application_has(monkeypatch):
    async def main():
        watch, plan, _, _ = watched()
        stream = LiveStream(watch, lambda: plan)
        monkeypatch.setattr(PageState, "of", lambda *_: 1 / 0)
        assert [chunk async for chunk in stream.events(100)] == []
        assert stream._feeds == {}
        stream.close()

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))


def test_who_looks_at_the_end_is_told_it_though_the_service_closes_at_once():
    async def main():
        watch, plan, _, now = watched()
        stream = LiveStream(watch, lambda: plan)
        pages = [stream.events(every) for every in (100, 60_000)]
        for page in pages:
            await anext(page)
        feed(watch, now, ApplicationEnded(now.seconds, "finished", ""))
        stream.close()
        for page in pages:
            *deltas, (name, _) = events_of(b"".join([chunk async for chunk in page]))
            infos = [data["patch"].get("overview", {}).get("info", {}) for _, data in deltas]
            assert "FINISHED" in [info.get("state") for info in infos]
            assert name == "end"
        assert stream._feeds == {}

    asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS))
