"""The frame of the page: it opens, is live, and shows the first view."""

import pytest

pytestmark = pytest.mark.slow


def test_the_page_opens_and_is_live(application, open_page):
    page = open_page(application.server.url)
    page.get_by_role("heading", name="shop").wait_for()
    page.get_by_text("live, ").wait_for()
    rows = page.get_by_role("row")
    rows.filter(has_text="parse[1]").wait_for()
    assert page.title() == "shop · Ridgeline"


def test_an_operator_is_chosen_by_the_keyboard_and_the_address_says_so(application, open_page):
    page = open_page(application.server.url)
    page.get_by_role("row").filter(has_text="totals").click()
    page.wait_for_url("**/#/overview?operator=totals")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_function("!location.hash.endsWith('=totals')")
