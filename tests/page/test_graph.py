"""The graph and the panel of an operator: what is drawn, and what is changed by clicks."""

import re

import pytest
from benchmarks.page_graph import many_application
from playwright.sync_api import expect

from ridgeline.engine.files.storage import LocalStorage
from support.page.browser import confirm
from support.page.orders import BRANCHES, orders_application
from support.service.living import living

pytestmark = pytest.mark.slow

LEAST_LABEL_PX = 11
NARROW = {"width": 390, "height": 800}
SMALLEST = """() => [...document.querySelectorAll('.graph-view *')]
    .filter((one) => one.checkVisibility() && [...one.childNodes].some((child) =>
        child.nodeType === Node.TEXT_NODE && child.data.trim()))
    .map((one) => parseFloat(getComputedStyle(one).fontSize) * (one.getScreenCTM?.().a ?? 1))
    .reduce((least, size) => Math.min(least, size), Infinity)"""


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """Orders with a module, three partitions of which one gets most, and branches."""
    folder = tmp_path_factory.mktemp("orders")
    with living(orders_application(), LocalStorage(str(folder))) as found:
        yield found


class Person:
    """Looks at the graph and clicks."""

    def __init__(self, page):
        self.page = page

    def click(self, role, name):
        self.page.get_by_role(role, name=name).first.click()

    def sees(self, text):
        expect(self.page.get_by_role("complementary")).to_contain_text(text)


@pytest.fixture
def person(orders, open_page):
    page = open_page(orders.server.page())
    page.get_by_role("link", name="Graph").click()
    card(page, "score").wait_for()
    expect(card(page, "score")).to_have_class(re.compile("graph-on-path"))
    return Person(page)


def card(page, name):
    return page.locator(f'[data-node="{name}"]')


def test_the_plan_is_drawn_with_modules_folded(orders, open_page, accessible, screenshot):
    page = open_page(f"{orders.server.url}/#/graph")
    for name in ("orders", "clean", "score", "store", "branch_0", "count_0"):
        card(page, name).wait_for()
    assert page.locator("[data-node]").count() == 4 + 2 * BRANCHES
    expect(page.locator(".graph-path").first).to_be_attached()
    assert page.evaluate(SMALLEST) >= LEAST_LABEL_PX
    accessible(page)
    screenshot(page, "graph")

    page.get_by_role("button", name="Fit all of it").click()
    page.keyboard.press("Escape")
    page.goto(f"{orders.server.url}/#/graph?open=clean&split=score")
    for name in ("clean.check", "clean.enrich"):
        card(page, name).wait_for()
    partitions = page.get_by_role("button", name=re.compile(r"^score\[\d\]"))
    expect(partitions).to_have_count(3)
    assert page.evaluate(SMALLEST) >= LEAST_LABEL_PX
    accessible(page)
    page.get_by_role("button", name="Fold score").click()
    page.wait_for_url("**/#/graph?open=clean")
    page.reload()
    card(page, "clean.enrich").wait_for()
    page.get_by_role("link", name="Physical").click()
    expect(page.get_by_role("button", name=re.compile(r"^unifier \["))).to_have_count(1 + BRANCHES)
    page.goto(f"{orders.server.url}/#/graph?operator=score%5B1%5D")
    page.get_by_text("Only score[1].").wait_for()


def test_what_it_has_done_in_the_last_hours(orders, person, open_page, accessible):
    person.click("button", re.compile("^score "))
    for title in ("latency", "tuples per second", "queue"):
        person.page.get_by_role("img", name=re.compile(f"^{title}: ")).wait_for()
    accessible(person.page)
    person.click("link", "24 h")
    person.page.wait_for_url("**range=24h*")
    person.page.get_by_role("img", name=re.compile("^latency: ")).wait_for()
    again = open_page(person.page.url)  # another page has what was before it
    again.get_by_role("img", name=re.compile("^latency: ")).wait_for()
    again.get_by_role("heading", name=re.compile("^The last .*, all partitions$")).wait_for()
    taken = orders.watch.operator_history("score", -86_400.0)["steps"]
    assert again.locator(".lines-first").first.get_attribute("d").count("L") >= len(taken) - 2


def test_it_is_as_good_in_dark_colours_and_on_a_narrow_screen(orders, open_page, accessible, screenshot):
    page = open_page(f"{orders.server.url}/#/graph?split=score&open=clean", dark=True)
    page.get_by_role("button", name=re.compile(r"^score\[0\]")).wait_for()
    accessible(page)
    screenshot(page, "graph-dark")
    page = open_page(f"{orders.server.url}/#/graph", size=NARROW)
    card(page, "score").click()
    page.get_by_role("heading", name="score", exact=True).wait_for()
    accessible(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= NARROW["width"]


def test_an_operator_is_reached_and_opened_by_the_keyboard(person):
    page = person.page
    card(page, "orders").focus()
    page.keyboard.press("ArrowRight")
    expect(card(page, "clean")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(card(page, "score")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="score", exact=True).wait_for()
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)
    assert "operator" not in page.url


def test_a_property_is_changed_only_after_its_difference_was_seen(orders, person):
    page = person.page
    person.click("button", re.compile("^score "))
    person.click("tab", "Settings")
    person.sees("***")
    assert "geheim" not in page.content()
    version = orders.run.plan.version
    page.get_by_role("button", name="Change microseconds").click()
    page.get_by_label("New value of microseconds").fill("500")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("score.microseconds")
    expect(dialog).to_contain_text("ridgeline set-operator-property orders score microseconds 500")
    dialog.get_by_role("button", name="Cancel").click()
    assert orders.run.plan.version == version

    page.get_by_role("button", name="Change microseconds").click()
    page.get_by_label("New value of microseconds").fill("500")
    page.keyboard.press("Enter")
    dialog.get_by_label("Note").fill("it's slow")
    confirm(dialog)
    person.sees(" by page, ")
    person.sees("it's slow")


def test_partitions_are_changed_by_clicks(orders, person):
    page = person.page
    person.click("button", re.compile("^score "))
    person.click("tab", "Partitions")
    page.get_by_role("spinbutton", name="Partitions").fill("4")
    page.get_by_role("button", name="See what would change").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("score: 3 -> 4 partitions")
    expect(dialog).to_contain_text("ridgeline repartition orders score 4")
    confirm(dialog)
    person.sees("4 partitions")
    assert len(orders.run.plan.logical.operator("score").divided) == 4


def test_five_hundred_operators_can_be_read_found_and_narrowed_down(open_page):
    with living(many_application(500)) as many:
        page = open_page(f"{many.server.url}/#/graph")
        page.locator("[data-node]").first.wait_for()
        page.wait_for_function(
            "() => Object.keys(localStorage).some((one) => one.startsWith('ridgeline.layout.'))"
        )
        cards = page.locator("[data-node]")
        assert 0 < cards.count() < 100
        assert page.evaluate(SMALLEST) >= LEAST_LABEL_PX
        page.get_by_role("button", name="Fit all of it").click()
        expect(page.locator(".graph-dots").first).to_be_attached()
        assert page.evaluate(SMALLEST) >= LEAST_LABEL_PX
        page.keyboard.press("/")
        page.keyboard.type("step_200")
        page.keyboard.press("Enter")
        page.wait_for_url("**operator=step_200*")
        expect(card(page, "step_200")).to_be_visible()
        page.get_by_role("button", name="Only its streams").click()
        page.wait_for_url("**only=1*")
        page.get_by_role("button", name="Fit all of it").click()
        expect(cards.first).to_be_attached()
        assert cards.count() < 200
        page.goto("about:blank")
