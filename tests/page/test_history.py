"""The page over runs that have ended: it shows all that their logs have, and offers nothing to change."""

import json
import re
import zipfile

import pytest
from playwright.sync_api import expect

from ridgeline.measure.events import ApplicationEnded, ContainerHeartbeat, StackTimes
from ridgeline.service.history.asking import LogAsks
from ridgeline.service.history.bundling import LOG, entry_of, make_bundle
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
    write_log(folder / "monday.jsonl", with_stacks(monday, 8.0, 1.0))
    write_log(folder / "tuesday.jsonl", with_stacks(tuesday, 8.0, 7.0))
    write_log(
        folder / "hostile.jsonl",
        events(3, began=day + 1000, end="failed", reason=HOSTILE, application_id="numbers-3"),
    )
    _, found = events_of(payments(20))
    write_log(folder / "payments.jsonl", [*found, ApplicationEnded(found[-1].at + 1, "finished")])
    made = day + 100_000
    make_bundle(LogAsks(folder / "tuesday.jsonl"), folder / "ticket.zip", made=made, windows=20)
    make_bundle(LogAsks(folder / "monday.jsonl"), folder / "lines.zip", made=made, windows=5)
    with zipfile.ZipFile(folder / "lines.zip", "a") as bundle:
        bundle.writestr(entry_of(LOG, {}), json.dumps({"lines": said(day), "last": 4, "leftOut": 0}))
    return folder


def with_stacks(found, parse, price):
    """Events with a heartbeat before their end: seconds of two functions of `double`, one hostile."""
    *rest, end = found
    own = next(one.id for one in found[0].topology.operators if one.name == "double")
    functions = ((0, 1, "parse", "user"), (0, 9, HOSTILE, "user"))
    stacks = StackTimes(("/srv/app.py",), functions, ((-1, own, 0.0), (0, 0, parse), (0, 1, price)))
    at = end.at - 0.05
    return [*rest, ContainerHeartbeat(at, -1, "worker-1", 7, at, stacks=stacks), end]


def said(at):
    """Lines of two operators, some minutes apart, as REST answers them."""
    rows = (("numbers", "", "began"), ("double", "ERROR", HOSTILE), ("double", "", "went on"))
    return [
        {
            "number": number + 1,
            "at": at + 300 * number,
            "operator": operator,
            "partition": 0,
            "windowId": number,
        }
        | {"source": "log" if level else "stdout", "level": level, "logger": "", "text": text}
        | {"traceId": None, "host": "h", "pid": 7, "leftOut": 0}
        for number, (operator, level, text) in enumerate(rows)
    ]


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
    screenshot(page, "page-history-run")
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
    page.get_by_text("6 runs: 1 failed, 5 ended.").wait_for()
    rows = page.get_by_role("row")
    files = [rows.nth(number).text_content() for number in (1, 6)]
    assert ["payments.jsonl" in files[0], "monday.jsonl" in files[1]] == [True, True]  # the newest first
    page.get_by_text("<script>alert(1)</script>").wait_for()
    accessible(page)
    screenshot(page, "page-history")
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    accessible(page)
    screenshot(page, "page-history-narrow")
    rows.filter(has_text="monday.jsonl").get_by_role("link").click()
    page.get_by_text("finished after 40 windows").wait_for()
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("row").filter(has_text="ticket.zip").get_by_role("link").click()
    page.get_by_text("stopped after 60 windows").wait_for()
    page.goto(page.url.partition("#")[0] + "#/time?window=55")
    page.get_by_role("heading", name="Window 55: who waited for whom").wait_for()
    for view in page.get_by_role("navigation", name="Views").get_by_role("link").all():
        view.click()
        page.locator("main > *").first.wait_for()
    open_page.expected.append("404.*(windowId=3|windows/3)'")
    page.goto(page.url.partition("#")[0] + "#/time?window=3")
    page.get_by_text("the bundle does not have this").first.wait_for()
    page.get_by_role("link", name="All runs").click()
    page.get_by_text("6 runs").wait_for()


def test_two_runs_side_by_side(address, folder, open_page, accessible, screenshot):
    page = open_page(f"{address}/")
    for name in ("monday.jsonl", "tuesday.jsonl"):
        page.get_by_role("row").filter(has_text=name).get_by_role("button").click()
    page.get_by_role("link", name="Compare the two runs").click()
    page.wait_for_url("**/#/compare?with=tuesday-*")
    figures = page.get_by_role("table", name="Figures")
    row = figures.get_by_role("row").filter(has_text="window latency, median")
    row.wait_for()
    assert row.get_by_role("cell").all_text_contents() == [
        "window latency, median",
        "50 ms",
        "90 ms",
        "+40 ms (+80 %)",
    ]
    page.get_by_role("img", name="Latency of the windows of both runs").wait_for()
    for title, part, said_of_it in (
        ("this run", 11, "36 points less than in the other run"),
        ("the other run", 47, "36 points more than in the other run"),
    ):
        tree = page.get_by_role("tree", name=f"Stacks of double, {title}, callers first")
        frame = tree.get_by_role("treeitem", name=HOSTILE.replace(chr(0x2028), " ")[:20])
        expect(frame).to_have_accessible_name(re.compile(f": {part} %.*, {said_of_it}$"))
    assert "7.0 ms → 7.0 ms" in page.get_by_role("table", name="Operators").text_content()
    accessible(page)
    screenshot(page, "page-compare")
    page.set_viewport_size(NARROW)
    page.emulate_media(color_scheme="dark")
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    screenshot(page, "page-compare-narrow", full_page=True)
    page.get_by_label("This run, and").select_option(
        label=page.locator("option").filter(has_text="payments").text_content()
    )
    page.wait_for_url("**with=payments-*")
    page.get_by_text("99% of records were younger than").wait_for()


def test_a_bundle_beside_an_event_log(address, open_page, accessible, screenshot):
    page = open_page(f"{address}/")
    for name in ("monday.jsonl", "ticket.zip"):
        page.get_by_role("row").filter(has_text=name).get_by_role("button").click()
    page.get_by_role("link", name="Compare the two runs").click()
    page.wait_for_url("**/#/compare?with=ticket-*")
    row = page.get_by_role("table", name="Figures").get_by_role("row").filter(has_text="latency, median")
    row.wait_for()
    assert row.get_by_role("cell").all_text_contents()[1:] == ["50 ms", "90 ms", "+40 ms (+80 %)"]
    page.get_by_text("Operators and streams are the same.").wait_for()
    page.get_by_text("The versions are the same.").wait_for()
    accessible(page)
    screenshot(page, "compare-bundle", full_page=True)


def test_the_lines_that_a_bundle_keeps(client, address, folder, open_page, accessible, screenshot):
    log = f"{address}{place(folder / 'lines.zip')}/"
    page = open_page(f"{log}#/log")
    page.get_by_text("Lines of operators are shown to those who may").wait_for()
    assert page.get_by_text("went on").count() == 0
    page = open_page(f"{log}#code={client.server.code()}")
    page.get_by_text("finished after 40 windows").wait_for()
    assert "code" not in page.url
    page.get_by_role("link", name="Log", exact=True).click()
    lines = page.get_by_role("log", name="Lines")
    for text in ("began", HOSTILE.replace(chr(0x2028), ""), "went on"):
        lines.get_by_text(text[:20]).wait_for()
    accessible(page)
    screenshot(page, "bundle-log")
    rows = lines.locator(".operator-log-line")
    for choice, value, left in (
        ("Operator", "numbers", 1),
        ("Level", "ERROR", 1),
        ("Time", "600", 3),
        ("Time", "60", 1),
    ):
        page.get_by_label(choice, exact=True).select_option(value)
        expect(rows).to_have_count(left)
        page.get_by_label(choice, exact=True).select_option("")
    page.get_by_label("Find lines").fill("went")
    expect(rows).to_have_count(1)
    page.goto(page.url.partition("#")[0] + "#/graph?operator=double&tab=logs")
    page.get_by_role("tabpanel").get_by_text("went on").wait_for()
    assert page.get_by_role("tabpanel").get_by_text("began").count() == 0
    page.goto(f"{address}{place(folder / 'monday.jsonl')}/#/log")
    page.get_by_text("No lines of operators are kept of this run.").wait_for()
