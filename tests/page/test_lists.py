"""The lists of the page."""

import re

import pytest

from support.page.browser import confirm
from support.page.troubled import committed, troubled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def application():
    with troubled() as found:
        yield found


@pytest.fixture
def page(application, open_page):
    """The page with the right to change something."""
    return open_page(f"{application.server.url}/#code={application.web.state.access.sessions.code()}")


def view(page, name):
    page.get_by_role("link", name=name, exact=True).click()


def test_promises_say_since_when_and_by_how_much(page):
    view(page, "Promises")
    page.get_by_text("1 promise of 1 broken").wait_for()
    page.get_by_role("row").filter(has_text="window_latency").click()
    detail = page.get_by_role("complementary", name="window_latency_p99")
    detail.get_by_text("Beyond the limit by").wait_for()
    detail.get_by_role("list", name="What happened").get_by_text("is broken").wait_for()


def test_sinks_slots_and_checkpoints(page):
    view(page, "Sinks")
    page.get_by_role("row").filter(has_text="ledger").click()
    page.get_by_role("complementary", name="ledger").get_by_text("staged before the commit").wait_for()
    page.get_by_role("table", name="Ages of records").get_by_role("row").nth(1).wait_for()
    view(page, "Slots")
    page.get_by_role("row").filter(has_text="@").click()
    page.get_by_text("container 0").wait_for()
    view(page, "Checkpoints")
    page.get_by_role("table", name="Windows to go back to").get_by_role("row").nth(1).click()
    page.get_by_text(re.compile(r"ridgeline run .* --from-window \d+$")).wait_for()


def test_configuration_says_where_a_value_was_said_and_hides_secrets(page):
    view(page, "Configuration")
    table = page.get_by_role("table", name="Configuration")
    changed = table.get_by_role("row").filter(has_text="operator.parse.pause")
    changed.get_by_text("change", exact=True).wait_for()
    changed.get_by_text("0.0002 (properties of start())").wait_for()
    page.get_by_label("Find a key or value").fill("password")
    page.get_by_label("all", exact=True).check()
    table.get_by_role("row").filter(has_text="operator.orders.password").get_by_text("***").wait_for()
    assert page.get_by_text("hunter2").count() == 0


def test_it_is_paused_and_goes_on_by_clicks(page, application):
    page.get_by_text("Run", exact=True).click()
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause the application")
    dialog.get_by_text("No further window begins").wait_for()
    dialog.get_by_text("ridgeline pause numbers-1").wait_for()
    confirm(dialog)
    assert application.run.paused
    page.get_by_text("Run", exact=True).click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("status").get_by_text("applied").wait_for()
    committed(application, application.watch.run()["windows"] + 2)
