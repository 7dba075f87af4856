"""The page of an application of two regions: what waits between them, and whose windows are shown."""

import re

import pytest
from playwright.sync_api import expect

from ridgeline.regions.joined_run import joined_plan
from support.service.halves import halves_of, joined
from support.service.watched import serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Both regions have run: 80 tuples wait in the queue between them."""
    watch = joined(halves_of(tmp_path_factory.mktemp("halves")))
    with serving(watch, joined_plan(watch.regions)) as client:
        yield f"http://{client.host}:{client.port}"


def test_the_queue_between_regions_is_drawn_with_what_waits_in_it(url, open_page, accessible):
    page = open_page(f"{url}/#/graph")
    for name in ("source", "divide", "orders_queue", "orders_to_mail"):
        page.locator(f'[data-node="{name}"]').wait_for()
    expect(page.locator(".graph-queue").first).to_be_attached()
    accessible(page)
    page = open_page(f"{url}/#/sources")
    queue = page.get_by_role("table", name="Queues between regions").get_by_role("row").nth(1)
    for text in ("orders", "shop", "mail", "80"):
        expect(queue.get_by_role("cell", name=text, exact=True)).to_be_visible()
    accessible(page)


def test_windows_of_regions_are_apart(url, open_page, accessible):
    page = open_page(f"{url}/#/time")
    for region in ("shop", "mail"):
        page.get_by_role("slider", name=f"Window of {region}").wait_for()
        page.get_by_role("img", name=re.compile(f"^latency of windows of {region}: ")).wait_for()
    page.get_by_role("heading", name="The newest results: who waited for whom").wait_for()
    page.get_by_role("slider", name="Window of mail").focus()
    page.keyboard.press("Home")
    page.wait_for_url("**region=mail*")
    page.get_by_text("Window 0 of mail, committed at").wait_for()
    accessible(page)


def test_queues_are_no_sinks_and_slots_say_their_region(url, open_page):
    page = open_page(f"{url}/#/sinks")
    sinks = page.get_by_role("table", name="Sinks")
    expect(sinks).to_contain_text("sink")
    expect(sinks).not_to_contain_text("orders_queue")
    page = open_page(f"{url}/#/overview")
    for region in ("shop", "mail"):
        page.locator(".overview-card").first.get_by_text(region, exact=True).wait_for()
