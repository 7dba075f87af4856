"""The page over runs that have ended: it shows all that their logs have, and offers nothing to change."""

import pytest

from ridgeline.measure.events import ApplicationEnded
from support.page.browser import NARROW
from support.service.history import events, history, place, write_log
from support.service.watched import events_of, payments

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>\u2028<img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    day = 1_700_000_000.0
    monday = events(40, began=day, application_id="numbers-1")
    tuesday = events(60, began=day + 86_400, seconds=0.09, end="stopped", application_id="numbers-2")
    write_log(folder / "monday.jsonl", monday)
    write_log(folder / "tuesday.jsonl", tuesday)
    write_log(
        folder / "hostile.jsonl",
        events(3, began=day + 1000, end="failed", reason=HOSTILE, application_id="numbers-3"),
    )
    _, found = events_of(payments(20))
    write_log(folder / "payments.jsonl", [*found, ApplicationEnded(found[-1].at + 1, "finished")])
    return folder


@pytest.fixture(scope="module")
def client(folder):
    with history(folder) as found:
        yield found


@pytest.fixture
def address(client):
    return f"http://{client.host}:{client.port}"


def test_a_run_that_has_ended_is_shown_and_not_changed(address, folder, open_page, accessible, screenshot):
    page = open_page(f"{address}{place(folder / 'monday.jsonl')}/")
    page.get_by_text("finished after 40 windows").wait_for()
    page.get_by_text("ended, as of").wait_for()
    views = page.get_by_role("navigation", name="Views").get_by_role("link").all_text_contents()
    assert "Queries" not in views
    assert page.get_by_text("Run", exact=True).count() == 0
    page.goto(page.url.partition("#")[0] + "#/graph?operator=double&tab=settings&window=7")
    page.get_by_text("Window 7, committed at").wait_for()
    page.get_by_role("table", name="Attributes").wait_for()
    assert page.get_by_role("button", name="Change").count() == 0
    screenshot(page, "history-run")
    for tab in ("Partitions", "Ports", "Code", "Now"):
        page.get_by_role("tab", name=tab).click()
        page.get_by_role("tab", name=tab, selected=True).wait_for()
        assert page.get_by_role("button", name="See what would change").count() == 0
        assert page.get_by_role("button", name="Show tuples").count() == 0
    for view in views:
        page.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        page.locator("main > *").first.wait_for()
    accessible(page)


def test_the_list_of_runs_leads_to_each(address, open_page, accessible, screenshot):
    page = open_page(f"{address}/")
    page.get_by_text("4 runs: 1 failed, 3 ended.").wait_for()
    rows = page.get_by_role("row")
    files = [rows.nth(number).text_content() for number in (1, 4)]
    assert ["payments.jsonl" in files[0], "monday.jsonl" in files[1]] == [True, True]  # the newest first
    page.get_by_text("<script>alert(1)</script>").wait_for()
    accessible(page)
    screenshot(page, "history")
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    accessible(page)
    screenshot(page, "history-narrow")
    rows.filter(has_text="monday.jsonl").get_by_role("link").click()
    page.get_by_text("finished after 40 windows").wait_for()
    page.get_by_role("link", name="All runs").click()
    page.get_by_text("4 runs").wait_for()
