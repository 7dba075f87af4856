"""Every view as it looks, in both colours, wide and narrow, with long names: nothing is cut or overlaps."""

import re

import pytest
from playwright.sync_api import expect

from ridgeline import Application
from ridgeline.stram.changes import Pause, Resume
from ridgeline.testing import CollectorSink
from support.page.browser import NARROW, WIDE
from support.page.shop import Order, Orders, Parse, Totals
from support.page.troubled import committed, troubled
from support.service.living import living
from support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

VIEWS = [
    *("overview", "graph", "graph?plan=physical", "graph?operator=parse"),
    *(f"graph?operator=parse&tab={tab}" for tab in ("partitions", "ports", "settings", "stack", "logs")),
    *("graph?operator=parse&tab=metrics", "time", "time?window=12", "sources", "sources?source=orders"),
    *("sinks", "sinks?sink=ledger", "slots", "log", "changes", "changes?change=change-1"),
    *("promises", "configuration?only=all"),
    *("checkpoints", "checkpoints?back=12"),
]
LONG = "a_very_long_name_as_generators_make_them_" * 3

BEYOND = """() => document.documentElement.scrollWidth <= innerWidth ? []
    : [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > innerWidth)
        .filter((one) => !one.closest(".frame-nav, .table-wrap, .operator-scroll, .graph-strip, pre, .copy"))
        .map((one) => one.outerHTML.slice(0, 150)).slice(0, 3)"""
OVERLAPS = """() => {
    const found = [];
    const placed = (all) => [...all].map((one) => [one, one.getBoundingClientRect()]);
    const boxes = (selector) => placed(document.querySelectorAll(selector))
        .filter(([one]) => one.checkVisibility());
    const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
    const compare = (some, others) => some.forEach(([one, box]) => others.forEach(([other, its]) => {
        if (one === other || !meet(box, its)) return;
        found.push([one.outerHTML, other.outerHTML].map((text) => text.slice(0, 150)));
    }));
    const rates = boxes(".graph-rate");
    compare(rates, [...rates, ...boxes(".graph-box")]);
    for (const card of document.querySelectorAll(".graph-card")) {
        const texts = placed(card.querySelectorAll("text"));
        compare(texts, texts);
        const box = card.querySelector(".graph-box").getBoundingClientRect();
        const out = texts.filter(([, its]) => its.right > box.right || its.left < box.left);
        found.push(...out.map(([one]) => ["out of its card", one.textContent]));
    }
    const line = placed(document.querySelector(".frame-line").children);
    compare(line, line);
    for (const one of document.querySelectorAll(".button, .operator-tab, .frame-nav a")) {
        const cut = one.checkVisibility() && one.scrollWidth > one.clientWidth + 1;
        const dots = getComputedStyle(one).textOverflow === "ellipsis";
        if (cut && !dots) found.push(["cut", one.outerHTML.slice(0, 150)]);
    }
    return found;
}"""


def plain(view):
    """A view as a part of a file's name."""
    return re.sub(r"[?=&]+", "-", view)


@pytest.fixture(scope="module")
def application():
    with troubled() as found:
        yield found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_view_can_be_read_by_all_wide_and_narrow(application, open_page, accessible, screenshot, dark):
    open_page.expected.append("404.*/metrics")  # it declares none
    page, wrong = open_page(application.server.page(), dark=dark), []
    page.get_by_text("live, ").wait_for()
    for view in VIEWS:
        for size in (WIDE, NARROW):
            page.set_viewport_size(size)
            page.evaluate("view => (location.hash = `#/${view}`)", view)
            page.locator(".frame-main > *:not(.notice)").first.wait_for()
            expect(page.locator("main .empty", has_text="Waiting")).to_have_count(0)
            expect(page.get_by_text("Loading its")).to_have_count(0)
            screenshot(page, f"look-{plain(view)}-{size['width']}{'-dark' if dark else ''}")
            wrong += [
                (view, size["width"], found) for found in page.evaluate(BEYOND) + page.evaluate(OVERLAPS)
            ]
            try:
                accessible(page)
            except AssertionError as error:
                wrong.append((view, size["width"], str(error)))
    assert wrong == []


def test_very_long_names_are_cut_and_not_the_page(open_page, accessible, screenshot):
    app = Application("long", window="100ms")
    orders = app.add_operator(f"{LONG}orders", Orders())
    parse = app.add_operator(f"{LONG}parse", Parse(), partitions=2)
    totals = app.add_operator(f"{LONG}totals", Totals())
    ledger = app.add_operator(f"{LONG}ledger", CollectorSink(Order))
    app.add_stream(f"{LONG}orders", orders.output, parse.input)
    app.add_stream(f"{LONG}parsed", parse.output, totals.input)
    app.add_stream(f"{LONG}totals", totals.output, ledger.input)
    with living(app) as found:
        committed(found, 20)
        open_page.expected.append("404.*/metrics")
        page, wrong = open_page(found.server.page()), []
        page.get_by_text("live, ").wait_for()
        for view in VIEWS:
            name = view.replace("=parse", f"={LONG}parse").replace("=orders", f"={LONG}orders")
            for size in (WIDE, NARROW):
                page.set_viewport_size(size)
                page.evaluate(
                    "view => (location.hash = `#/${view}`)", name.replace("=ledger", f"={LONG}ledger")
                )
                page.locator(".frame-main > *:not(.notice)").first.wait_for()
                screenshot(page, f"long-{plain(view)}-{size['width']}")
                wrong += [(view, size["width"], found) for found in page.evaluate(BEYOND)]
        accessible(page)
        assert wrong == []
        page.goto("about:blank")


def test_only_the_critical_path_moves_and_nothing_for_who_wants_it_still(application, open_page):
    open_page.expected.append("404.*/metrics")
    page = open_page(f"{application.server.url}/#/graph?operator=parse", calm=False)
    page.locator(".graph-flow").first.wait_for(state="attached")
    moving = """() => document.getAnimations().filter((one) => one.playState === "running")
        .map((one) => one.effect.target.getAttribute("class"))"""
    assert set(page.evaluate(moving)) == {"graph-flow"}
    page.emulate_media(reduced_motion="reduce")
    expect(page.locator(".graph-flow").first).to_be_hidden()
    assert page.evaluate(moving) == []
    for view in VIEWS:
        page.evaluate("view => (location.hash = `#/${view}`)", view)
        page.locator(".frame-main > *").first.wait_for()
        assert page.evaluate(moving) == [], view


FOCUSED = """() => {
    const one = document.activeElement;
    if (one === document.body) return null;
    one.dataset.reached = "yes";
    const style = getComputedStyle(one);
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
    const seen = outlined || style.boxShadow !== "none" || one.closest("svg");
    return seen ? "seen" : one.outerHTML.slice(0, 150);
}"""
MISSED = """() =>
    [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")]
    .filter((one) => one.checkVisibility() && !one.disabled && one.tabIndex >= 0 && !one.dataset.reached)
    .filter((one) => one.type !== "radio" || one.checked) // the arrow keys reach the others
    .filter((one) => !one.closest(".sentence")) // whose figures are others after a while
    .map((one) => one.outerHTML.slice(0, 150))"""


@pytest.fixture
def paused(application):
    """The application, whose windows rest: what is on the page stays the same."""
    application.run.changes.ask(Pause(""), "test").done.wait(PATIENCE_SECONDS)
    yield application
    application.run.changes.ask(Resume(""), "test").done.wait(PATIENCE_SECONDS)


def test_all_that_can_be_used_is_reached_by_the_tab_key_and_shows_it(paused, open_page):
    page = open_page(paused.server.page())
    page.get_by_text("live, ").wait_for()
    for view in VIEWS:
        if view.startswith("graph?plan=") or "tab=metrics" in view:
            continue  # the same controls as of another, or none
        page.evaluate("view => (location.hash = `#/${view}`)", view)
        page.locator(".frame-main > *:not(.notice)").first.wait_for()
        expect(page.locator("main .empty", has_text="Waiting")).to_have_count(0)
        expect(page.get_by_text("Loading its")).to_have_count(0)
        page.evaluate("document.activeElement.blur()")
        unseen = set()
        for _ in range(300):
            page.keyboard.press("Tab")
            focused = page.evaluate(FOCUSED)
            if focused is None:  # once round
                break
            unseen |= {focused} - {"seen"}
        assert unseen == set(), view
        assert page.evaluate(MISSED) == [], view
