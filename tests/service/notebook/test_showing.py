"""How an application shows itself in a notebook and in asyncio, over the figures of a run in process."""

import asyncio
import json
import threading
from xml.etree import ElementTree as ET

import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets.widgets import widget as library

from ridgeline import RidgelineError
from ridgeline.engine.driver.run.options import Outcome
from ridgeline.measure.events import ApplicationEnded, WindowCommitted
from ridgeline.measure.wording.sentence import sentence_of
from ridgeline.service.notebook import widget
from ridgeline.service.notebook.figures import CellFigures
from ridgeline.service.notebook.showing import Showing
from ridgeline.testing import CollectorSink
from support.service.patches import patched, without_nulls
from support.service.watched import feed, payments, watched

WIDGET = "application/vnd.jupyter.widget-view+json"


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
def local(wait_until):
    found = Local()
    yield found
    found.is_running = False
    wait_until(lambda: not followers(), "the end of the widget's thread")


def test_a_cell_shows_the_sentence_and_the_plan_as_widget_html_and_text(local):
    shell = InteractiveShell.instance()
    found, _ = shell.display_formatter.format(local)
    assert set(found) == {WIDGET, "text/html", "text/plain"}
    sentence = sentence_of(local.watch.overview())["text"]
    assert found["text/plain"].splitlines()[1] == sentence
    shown = found["text/html"]
    assert "payments &lt;b&gt;" in shown
    assert "hunter2" not in shown
    picture = ET.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + 6])
    svg = "{http://www.w3.org/2000/svg}"
    assert [title.text for title in picture.iter(f"{svg}title")] == ["source", "balances", "sink"]


def whole(widget):
    return json.loads(widget.get_state("whole")["whole"])


def followers():
    return [one for one in threading.enumerate() if one.name == "ridgeline-widget"]


def test_the_widget_has_the_page_s_state_until_the_end_and_one_thread(local, wait_until):
    models = {local._repr_mimebundle_()[WIDGET]["model_id"] for _ in range(10)}
    assert models == {local.widget.model_id}
    assert len(followers()) == 1
    first = whole(local.widget)
    assert (first["over"], first["state"]["name"]) == (False, "payments <b>")
    assert first["state"]["sentence"]["text"] == sentence_of(local.watch.overview())["text"]
    assert "hunter2" not in json.dumps(first)
    local.go_on(to_the_end=True)
    wait_until(lambda: not followers(), "the end of the widget's thread")
    last = whole(local.widget)
    assert last["over"]
    assert "finished after" in last["state"]["sentence"]["text"]


def test_differences_lead_to_the_state_that_a_newcomer_gets(local):
    figures = CellFigures(local, local._present_plan)
    state = json.loads(figures.whole())["state"]
    figures.is_followed = True
    version = 1
    while local.is_running:
        local.go_on()
        difference = json.loads(figures.difference())
        version += 1
        state = patched(state, difference["patch"])
        newcomer = json.loads(figures.whole())
        assert difference["version"] == newcomer["version"] == version
        assert without_nulls(state) == without_nulls(newcomer["state"])
        assert newcomer["over"] is not local.is_running


def test_a_widget_that_was_closed_leaves_nothing_and_another_takes_its_place(local, wait_until):
    first = local.widget
    first.close()
    wait_until(lambda: not followers(), "the end of the widget's thread")
    assert first not in library._instances.values()
    shown = local._repr_mimebundle_()
    assert shown[WIDGET]["model_id"] == local.widget.model_id
    assert len(followers()) == 1
    for one in (local.widget, local._display_(), local._display_()):
        one.comm.close()  # as marimo does with the cell: the widget itself stays
    wait_until(lambda: not followers(), "the end of the widgets' thread")


def test_a_plan_shows_itself_as_widget_until_it_has_faults(monkeypatch):
    app = payments()
    shell = InteractiveShell.instance()
    found, _ = shell.display_formatter.format(app)
    assert set(found) == {WIDGET, "text/html", "text/plain"}
    again, _ = shell.display_formatter.format(app)
    assert again[WIDGET]["model_id"] == found[WIDGET]["model_id"]
    shown = whole(app._display_())
    assert [one["name"] for one in shown["state"]["plan"]["operators"]] == ["source", "balances", "sink"]
    assert "hunter2" not in json.dumps(shown)
    app.add_operator("alone", CollectorSink(object))
    found, _ = shell.display_formatter.format(app)
    assert set(found) == {"text/html", "text/plain"}
    assert "alone" in app._display_()._repr_html_()
    monkeypatch.setattr(widget, "is_installed", lambda: False)
    assert "balances" in payments()._display_()._repr_html_()


def test_without_the_extra_a_cell_shows_html_and_text(local, monkeypatch):
    monkeypatch.setattr(widget, "is_installed", lambda: False)
    assert set(local._repr_mimebundle_()) == {"text/html", "text/plain"}
    with pytest.raises(RidgelineError, match=r"pip install 'ridgeline\[notebook\]'"):
        local.widget  # noqa: B018  raises


def test_plots_are_pictures(local):
    for picture in (local.plot.latency(), local.plot.windows(), local.plot.ages()):
        assert ET.fromstring(picture._repr_html_()).tag.endswith("svg")
    assert "balances" in local.plot.latency().svg
    assert "sink, commit" in local.plot.ages().svg
    assert "picture of" in repr(local.plot.ages())


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


def test_who_was_slower_than_many_windows_gets_all_that_are_kept_each_once():
    local = Local(payments(windows=40))

    async def run():
        seen = []
        async for window in local:
            seen.append(window["windowId"])
            if len(seen) == 1:
                local.go_on(to_the_end=True)
        return seen

    async def begin():
        windows = asyncio.create_task(run())
        await asyncio.sleep(0)
        await asyncio.to_thread(local.go_on)
        return await windows

    assert asyncio.run(begin()) == list(range(3, 40))


def test_a_failure_is_raised_where_it_is_awaited_and_a_cancelled_wait_leaves_the_run(local):
    async def impatient():
        async with asyncio.timeout(0.05):
            await local

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    assert local.is_running
    local.error = RidgelineError("it is broken")
    local.go_on(to_the_end=True)

    async def run():
        async for _ in local:
            pass

    with pytest.raises(RidgelineError, match="it is broken"):
        asyncio.run(run())
