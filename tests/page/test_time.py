"""The time view: the last windows and hours, one window chosen, and a line that is cut."""

import random
import re

import pytest

from support.page.troubled import FAILED, troubled

pytestmark = pytest.mark.slow
MOST_BYTES = 1_500_000  # of a moving picture


@pytest.fixture(scope="module")
def application():
    with troubled() as found:
        yield found


def test_the_last_hours_have_marks_of_what_happened(application, open_page, accessible):
    page = open_page(f"{application.server.url}/#/time?range=2h")
    page.get_by_role("img", name=re.compile("^latency of windows: median ")).wait_for()
    ages = page.get_by_role("img", name=re.compile("^record age at ledger: mean "))
    ages.wait_for()
    ages.locator(".lines-mark").filter(has_text="▲").first.wait_for()
    page.get_by_role("link", name="15 min").click()
    page.wait_for_function("!location.hash.includes('range=')")
    page.get_by_role("img", name=re.compile("^latency of windows: median ")).hover()
    accessible(page)
    figures = f"{application.server.url}/page/parts/hours.js"
    script = """async ([at, rows, step, from, answer]) =>
        (await import(at)).joined(rows, step, from, {step: 1, keptSeconds: 900, steps: answer}, 7200)"""

    def joined(known, from_, answer, step=1):
        rows = [[{"at": one} for one in ones] for ones in (known, answer)]
        found = page.evaluate(script, [figures, rows[0], step, from_, rows[1]])
        return [row["at"] for row in found[0]], found[1]

    assert joined([1, 2, 2.5], 1, [2, 3, 3.5]) == ([1, 2, 3, 3.5], 1)
    assert joined([1, 2], 1, [2, 2000]) == ([], None)  # seconds are not kept so far back
    assert joined([], 0, [1, 9000]) == ([9000], 1)
    assert joined([1, 2], 1, []) == ([1, 2], 1)
    assert joined([100, 200], 199, [50]) == ([], None)  # the clock was set back
    assert joined([100, 200], 190, [200, 201], step=5) == ([], None)


def test_from_the_sentence_to_the_cause_as_the_readme_shows_it(application, open_page, film):
    page = open_page(application.server.url, size={"width": 1120, "height": 700}, calm=False)
    page.get_by_role("row").filter(has_text="parse[1]").first.wait_for()
    moving = film(page, "page")
    moving.look(2.4, frames=3)
    page.get_by_role("link", name="Graph", exact=True).click()
    page.locator(".graph-flow").first.wait_for(state="attached")
    moving.look(2.4, frames=8)
    page.locator('[data-node="parse"]').click()
    page.get_by_role("img", name=re.compile("^latency: ")).wait_for()
    moving.look(3, frames=4)
    page.get_by_role("link", name="Time", exact=True).click()
    page.get_by_text(re.compile(r"^Slower since \d")).wait_for()
    moving.look(3, frames=3)
    happened = page.get_by_role("list", name="What happened", exact=True)
    happened.get_by_role("link", name=f"window {FAILED}").click()
    page.get_by_role("heading", name=f"Window {FAILED}: who waited for whom").wait_for()
    page.evaluate("scrollTo(0, 0)")
    moving.look(3)
    page.get_by_role("link", name="Changes", exact=True).click()
    page.get_by_role("cell", name="a new supplier").wait_for()
    moving.look(2.4)
    assert 20_000 < moving.close().stat().st_size < MOST_BYTES


def test_a_window_is_chosen_by_keys_and_by_dragging_and_live_goes_back(application, open_page):
    page = open_page(f"{application.server.url}/#/time")
    strip = page.get_by_role("slider", name="Window")
    strip.focus()
    page.keyboard.press("Home")
    page.wait_for_url("**window=0*")
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**window=1*")
    page.get_by_role("heading", name="Window 1: who waited for whom").wait_for()
    assert strip.get_attribute("aria-valuetext").startswith("window 1 at ")
    box = strip.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 40, steps=8)
    page.mouse.up()
    page.wait_for_function("Number(/window=(\\d+)/.exec(location.hash)?.[1]) > 5")
    page.get_by_role("button", name="Live").click()
    page.wait_for_function("!location.hash.includes('window=')")


def test_the_turn_of_latency_is_found_where_it_is_and_only_there(application, open_page):
    page = open_page(f"{application.server.url}/#/time")
    page.get_by_role("slider", name="Window").wait_for()
    luck = random.Random(7)

    def turn_of(latencies):
        windows = [{"windowId": number, "latencyMs": one} for number, one in enumerate(latencies)]
        script = "async ([at, windows]) => (await import(at)).turn(windows)?.index ?? null"
        return page.evaluate(script, [f"{application.server.url}/page/time/figures.js", windows])

    for _ in range(20):
        before, after = luck.randrange(12, 300), luck.randrange(12, 300)
        level = luck.choice([0.2, 0.4, 2.5, 8])
        steady = [100 * luck.lognormvariate(0, 0.15) for _ in range(before + after)]
        turned = [one * (level if number >= before else 1) for number, one in enumerate(steady)]
        assert turn_of(steady) is None
        assert abs(turn_of(turned) - before) <= 2
