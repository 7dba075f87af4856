"""The page over runs that have ended: it shows all that their logs have, and offers nothing to change."""

import pytest

from support.service.history import events, history, place, write_log
from support.service.watched import events_of, payments

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    _, found = events_of(payments(20))
    return [
        write_log(folder / "morning.jsonl", events(40)),
        write_log(folder / "payments.jsonl", found),
    ]


@pytest.fixture(scope="module")
def client(logs):
    with history(*logs) as found:
        yield found


@pytest.fixture
def page(client, logs, open_page):
    return open_page(f"http://{client.host}:{client.port}{place(logs[0])}/")


def test_a_run_that_has_ended_is_shown_and_not_changed(page, accessible):
    page.get_by_text("finished after 40 windows").wait_for()
    page.get_by_text("ended, as of").wait_for()
    views = page.get_by_role("navigation", name="Views").get_by_role("link").all_text_contents()
    assert "Queries" not in views
    assert page.get_by_text("Run", exact=True).count() == 0
    page.goto(page.url.partition("#")[0] + "#/graph?operator=double&tab=settings&window=7")
    page.get_by_text("Window 7, committed at").wait_for()
    page.get_by_role("table", name="Attributes").wait_for()
    assert page.get_by_role("button", name="Change").count() == 0
    for tab in ("Partitions", "Ports", "Code", "Now"):
        page.get_by_role("tab", name=tab).click()
        page.get_by_role("tab", name=tab, selected=True).wait_for()
        assert page.get_by_role("button", name="See what would change").count() == 0
        assert page.get_by_role("button", name="Show tuples").count() == 0
    for view in views:
        page.get_by_role("navigation", name="Views").get_by_role("link", name=view, exact=True).click()
        page.locator("main > *").first.wait_for()
    accessible(page)
