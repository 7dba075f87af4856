"""How an application shows itself in a notebook and in asyncio, over the figures of a run in process."""

import asyncio

import pytest

from ridgeline.engine.driver.run.options import Outcome
from ridgeline.measure.events import ApplicationEnded, WindowCommitted
from ridgeline.service.notebook import Showing
from support.service.watched import feed, watched


class Local(Showing):
    """A run of three windows; `go_on` has the events of one more, or of all."""

    name = "payments <b>"
    url = "http://127.0.0.1:1"
    watch = None
    is_running = True

    def __init__(self, app=None):
        self.watch, self.plan, self.rest, self.now = watched(app, until=3)
        self.error = None

    def _present_plan(self):
        return self.plan

    def go_on(self, *, to_the_end=False):
        while self.rest:
            event = self.rest.pop(0)
            feed(self.watch, self.now, event)
            if isinstance(event, WindowCommitted) and not to_the_end:
                return
        feed(self.watch, self.now, ApplicationEnded(self.now.seconds, "finished"))
        self.is_running = False

    def wait(self, timeout=None):
        if self.error is not None:
            raise self.error
        return Outcome(5, 4, True, "")


@pytest.fixture
def local():
    return Local()


def test_a_cell_shows_the_sentence_the_plan_and_a_link(local):
    shown = local._repr_html_()
    assert 'href="http://127.0.0.1:1"' in shown
    assert "payments &lt;b&gt;" in shown
    assert "hunter2" not in shown
    assert [name for name in ("source", "balances", "sink") if f"<td>{name}</td>" in shown] == [
        *("source", "balances", "sink")
    ]


def test_windows_are_iterated_as_they_come_and_the_end_is_awaited(local):
    async def run():
        seen, first = [], asyncio.Event()

        async def watch_windows():
            async for window in local:
                seen.append(window["windowId"])
                first.set()

        windows = asyncio.create_task(watch_windows())
        end = asyncio.ensure_future(local)
        await asyncio.sleep(0)
        await asyncio.to_thread(local.go_on)
        await first.wait()
        assert not end.done()
        await asyncio.to_thread(local.go_on, to_the_end=True)
        await windows
        return seen, await end

    assert asyncio.run(run()) == ([3, 4], Outcome(5, 4, True, ""))
