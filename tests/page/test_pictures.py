"""The pictures of the docs: `make pictures` takes them, and each view is there to be taken at any time."""

import io
import os
import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from support.page.browser import NARROW, WIDE, confirm
from support.page.pictured import FAILED, NOTE, pictured
from support.paths import ROOT
from support.service.history import history
from support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark]

MOST_BYTES = 100_000
LEAST_WINDOWS = 125  # the first one, which is long, has left the chart of the last 120
PATIENCE_MS = 1000 * PATIENCE_SECONDS


@pytest.fixture(scope="module")
def application(spark_context, tmp_path_factory):
    with pictured(spark_context, tmp_path_factory.mktemp("pictured")) as found:
        yield found


@pytest.fixture(scope="module")
def behind(application):
    """The same, once `score` takes so long that it falls behind."""
    application.slow()
    return application


@pytest.fixture
def taken(tmp_path):
    """`taken(page, name)`: the picture `page-NAME.png`, with few colours, in `RIDGELINE_SCREENSHOTS`."""
    folder = Path(os.environ.get("RIDGELINE_SCREENSHOTS", tmp_path))

    def take(page, name):
        page.mouse.move(0, 0)
        drawn = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
        path = folder / f"page-{name}.png"
        drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        assert path.stat().st_size <= MOST_BYTES

    return take


def shows(page, view, *places):
    """The page goes to a view, in which there are these places."""
    page.evaluate("view => (location.hash = `#/${view}`)", view)
    for place in places:
        place.first.wait_for()


def row(page, name):
    return page.get_by_role("row", name=re.compile(name, re.IGNORECASE)).first


def test_views_of_an_application_that_keeps_up(application, open_page, taken):
    wait_until(lambda: application.watch.run()["windows"] > LEAST_WINDOWS, "windows", every=0.1)
    page = open_page(application.page())
    page.get_by_text("of 120 windows").wait_for()
    row(page, "^score").wait_for()
    expect(page.locator(".frame-line .state")).to_have_text("ok", timeout=PATIENCE_MS)
    taken(page, "overview")
    page.set_viewport_size(NARROW)
    taken(page, "overview-narrow")
    page.set_viewport_size(WIDE)
    shows(page, "graph", page.locator('[data-node="ledger"]'))
    expect(page.locator(".graph-path").first).to_be_attached()
    taken(page, "graph")
    shows(page, "sinks?sink=ledger", page.get_by_role("complementary"))
    taken(page, "sinks")
    shows(page, "log", page.get_by_text("has no amount"))
    taken(page, "log")
    happened = page.get_by_role("list", name="What happened then")
    shows(page, f"time?window={FAILED}", happened.get_by_text("ConnectionResetError"))
    taken(page, "window")
    shows(page, "slots", row(page, "running|idle"))
    row(page, "running|idle").click()
    page.get_by_role("heading", name="Containers").wait_for()
    taken(page, "slots")


def test_views_of_one_that_falls_behind(behind, open_page, taken):
    page = open_page(behind.page())
    shows(page, "overview", page.get_by_text("ridgeline repartition"))
    expect(page.locator(".sentence")).to_contain_text("score is saturated", timeout=PATIENCE_MS)
    taken(page, "behind")
    shows(page, "sources?source=orders", page.get_by_text("will not catch up at this pace"))
    taken(page, "sources")
    shows(page, "graph?operator=score", page.get_by_role("img", name=re.compile("^latency: ")))
    taken(page, "operator")
    shows(page, "changes", page.get_by_role("cell", name=NOTE))
    row(page, "score.pause").click()
    page.get_by_role("complementary", name="Change").get_by_text("Windows are slower").wait_for()
    taken(page, "changes")
    shows(page, "graph?operator=score&tab=partitions", page.get_by_role("spinbutton"))
    page.get_by_role("spinbutton", name="Partitions").fill("2")
    page.get_by_role("button", name="See what would change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".change-lines")).to_contain_text("score")
    dialog.get_by_label("Note").fill("one is saturated")
    taken(page, "change")
    confirm(dialog)
    page.get_by_text(re.compile("of the tuples, that is")).wait_for()
    taken(page, "partitions")
    page.goto("about:blank")


def test_views_in_dark_colours_and_the_list_of_runs(behind, open_page, taken):
    page = open_page(behind.url, dark=True)
    row(page, "^score").wait_for()
    taken(page, "overview-dark")
    page.goto(f"{behind.url}/#/graph?split=score&open=clean")
    page.get_by_role("button", name=re.compile(r"^score\[0\]")).wait_for()
    taken(page, "graph-dark")
    page.goto("about:blank")
    with history(behind.logs) as runs:
        page = open_page(f"http://{runs.host}:{runs.port}/")
        page.get_by_text("3 runs").wait_for()
        page.get_by_text("the disk is full").wait_for()
        expect(page.get_by_text("is not read yet")).to_have_count(0, timeout=PATIENCE_MS)
        taken(page, "history")


def test_each_picture_is_in_the_docs_and_each_that_they_show_is_there():
    folder = ROOT / "docs" / "images"
    pictures = {one.name for one in folder.glob("*.png")}
    texts = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "docs").rglob("*.md"))
    assert pictures == set(re.findall(r"images/([\w-]+\.png)", texts))
    assert len(pictures) == 16
    assert all((folder / one).stat().st_size <= MOST_BYTES for one in pictures)
