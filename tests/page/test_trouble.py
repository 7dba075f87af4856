"""The page in trouble: a wrong clock, two who change the same, a run without windows, and one of a day."""

import re

import pytest
from playwright.sync_api import expect

from ridgeline.measure.events import WindowRetried
from ridgeline.plan.edits import SetProperty
from ridgeline.stram.changes import EditPlan
from support.page.browser import confirm
from support.page.shop import shop
from support.service.living import living
from support.service.watched import payments, serving, watched

pytestmark = pytest.mark.slow

HOUR_AHEAD = """(() => {
    const Right = Date;
    globalThis.Date = class extends Right {
        constructor(...given) {
            if (given.length) super(...given);
            else super(Right.now() + 3_600_000);
        }
        static now() { return Right.now() + 3_600_000; }
    };
})()"""


def seconds_of(text):
    hours, minutes, seconds = map(int, re.search(r"(\d\d):(\d\d):(\d\d)", text).groups())
    return 3600 * hours + 60 * minutes + seconds


def test_times_are_those_of_the_application_where_the_browser_is_an_hour_ahead(open_page):
    open_page.expected.append("ERR_|Failed to load")
    with living(shop()) as application:
        page = open_page(application.server.url)
        page.add_init_script(HOUR_AHEAD)
        page.reload()
        page.get_by_text("live, ").wait_for()
        page.get_by_text(re.compile(r"of \d+ windows")).wait_for()
        live = page.locator(".frame-connection").inner_text()
        page.evaluate("location.hash = '#/sources'")
        page.locator(".sources-verdict, .empty").first.wait_for()
        page.evaluate("location.hash = '#/time'")
        page.get_by_role("img", name=re.compile("^latency of windows: median ")).wait_for()
    page.get_by_text("stale since").first.wait_for()
    stale = page.locator(".frame-connection").inner_text()
    assert 0 <= (seconds_of(stale) - seconds_of(live)) % 86_400 < 120
    expect(page.get_by_role("alert").first).to_contain_text(stale.removeprefix("stale since "))


def test_two_who_change_the_same_see_what_the_other_has_done(open_page):
    with living(shop()) as application:
        pages = []
        for value in ("0.001", "0.002"):
            page = open_page(application.server.page())
            page.get_by_text("live, ").wait_for()
            page.evaluate("location.hash = '#/graph?operator=parse&tab=settings'")
            page.get_by_role("button", name="Change pause").click()
            page.get_by_label("New value of pause").fill(value)
            page.keyboard.press("Enter")
            expect(page.get_by_role("dialog")).to_contain_text("0.0005")
            pages.append(page)
        first, second = (page.get_by_role("dialog") for page in pages)
        first.get_by_label("Note").fill("<i>mine</i>")
        confirm(first)
        expect(second).to_contain_text("The plan has changed meanwhile")
        expect(second.locator(".change-lines")).to_contain_text("0.001")
        expect(second.locator(".change-lines")).not_to_contain_text("0.0005")
        confirm(second)
        for page in pages:
            expect(page.get_by_role("row", name=re.compile("^pause"))).to_contain_text("0.002")
            page.evaluate("location.hash = '#/changes'")
            expect(page.get_by_role("row")).to_have_count(3)
            page.get_by_role("cell", name="<i>mine</i>").wait_for()
            page.goto("about:blank")


@pytest.fixture
def asking(open_page):
    """`asking(application)`: a page with the dialog of a change of `parse.pause`; `route`: its requests."""

    def ask(application, route=None, value="0.002"):
        page = open_page(application.server.page())
        page.get_by_text("live, ").wait_for()
        if route is not None:
            page.route("**/changes", route)
        page.evaluate("location.hash = '#/graph?operator=parse&tab=settings'")
        page.get_by_role("button", name="Change pause").click()
        page.get_by_label("New value of pause").fill(value)
        page.get_by_role("button", name="See what would change").click()
        return page

    return ask


def test_an_answer_that_comes_late_does_not_hide_the_difference_of_the_plan_as_it_is(asking):
    with living(shop()) as application:
        late = []

        def hold_the_first(route):
            if route.request.method == "POST" and not late:
                late.append((route, route.fetch()))
            else:
                route.continue_()

        page = asking(application, hold_the_first)
        lines = page.get_by_role("dialog").locator(".change-lines")
        while not late:
            page.wait_for_timeout(20)
        edit = SetProperty("parse", "pause", 0.001)
        application.run.changes.ask(EditPlan((edit,), ""), "another").done.wait(30)
        expect(lines).to_contain_text("0.001 -> 0.002")
        route, answer = late[0]
        assert "0.0005 -> 0.002" in answer.text()
        with page.expect_event("requestfinished", lambda one: one == route.request):
            route.fulfill(response=answer)
        page.wait_for_timeout(200)
        expect(lines).to_contain_text("0.001 -> 0.002")


def test_a_change_whose_answer_is_lost_may_have_been_made_and_the_page_says_so(asking, open_page):
    open_page.expected.append("ERR_|Failed to load")
    with living(shop()) as application:

        def lose_the_answer(route):
            if route.request.method == "POST" and "dryRun" not in route.request.post_data:
                route.fetch()
                route.abort()
            else:
                route.continue_()

        page = asking(application, lose_the_answer)
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Confirm").click()
        expect(dialog.get_by_role("alert")).to_contain_text("It may have been made all the same")
        expect(dialog).to_contain_text("The plan has changed meanwhile")
        assert application.run.plan.logical.operator("parse").operator.pause == 0.002


def test_what_cannot_be_made_cannot_be_confirmed(asking, open_page):
    open_page.expected.append("40\\d")
    with living(shop()) as application:
        dialog = asking(application, value="quick").get_by_role("dialog")
        expect(dialog.get_by_role("alert")).to_contain_text("parse.pause")
        expect(dialog.get_by_role("button", name="Confirm")).to_be_disabled()


VIEWS = [
    *("overview", "graph", "time", "sources", "sinks", "slots", "log", "changes", "promises"),
    *("configuration", "checkpoints"),
]


def test_before_the_first_window_each_view_says_what_it_waits_for(open_page, accessible):
    watch, plan, _, _ = watched(until=0)
    with serving(watch, plan) as client:
        watch.observe(WindowRetried(watch.now(), 0, 1, "the disk is full"))
        page = open_page(f"http://127.0.0.1:{client.port}")
        page.get_by_text("Waiting for the first window").wait_for()
        for view in VIEWS:
            page.evaluate("view => (location.hash = `#/${view}`)", view)
            page.wait_for_function("() => document.querySelector('main').innerText.trim()")
            if view == "time":
                page.get_by_text("window 0 runs again (attempt 2): the disk is full").wait_for()
            accessible(page)


def test_a_run_of_a_day_has_its_windows_in_the_strip_and_its_hours_in_the_charts(
    open_page, accessible, screenshot
):
    watch, plan, _, _ = watched(payments(1_000, window="80s"))
    with serving(watch, plan) as client:
        page = open_page(f"http://127.0.0.1:{client.port}/#/time?range=24h")
        page.get_by_role("heading", name="The last 1,000 windows").wait_for()
        page.get_by_role("heading", name=re.compile(r"^The last 22 h \d+ min")).wait_for()
        strip = page.get_by_role("slider", name="Window")
        strip.focus()
        for key, window in (("Home", 0), ("End", 999), ("PageUp", 979)):
            page.keyboard.press(key)
            page.wait_for_url(f"**window={window}*")
        page.get_by_text("Window 979, committed at").wait_for()
        accessible(page)
        screenshot(page, "day")
