"""The page with the list of applications: what needs a look comes first, and each opens its own page."""

import re
import socket

import pytest

from ridgeline.api.clock import SystemClock
from ridgeline.service.http.server import WebServer
from ridgeline.service.listing.asking import Asking
from ridgeline.service.listing.web import create_list
from ridgeline.service.registry import Entry, own_entry, register, running
from support.page.browser import NARROW, WIDE

pytestmark = pytest.mark.slow

RIGHTS = """async () => {
    const headers = {"x-ridgeline-key": localStorage.getItem("ridgeline-key")};
    return (await fetch("/page/session", {headers})).json();
}"""
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"


@pytest.fixture
def listed(application, tmp_path, monkeypatch):
    """A list of the shop, of one that hangs, and of two that are gone."""
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    now = SystemClock().wall()
    token = application.web.state.write_token
    register(own_entry("shop-1", "shop", application.server.url, token=token, started=now - 7260, user="ann"))
    for number, name in enumerate(["prices", "clicks"], 1):
        url = f"http://127.0.0.1:{number}"
        register(Entry(f"old-{number}", name, url, host="elsewhere", started=now - 1e6, user="bob"))
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        server = WebServer(create_list(Asking([Entry("", "", url)], running)))
        try:
            yield server
        finally:
            server.close()


def test_the_list_is_live_and_opens_a_page_with_rights(listed, open_page, accessible, screenshot):
    page = open_page(listed.page())
    rows = page.get_by_role("table", name="Applications").get_by_role("row")
    rows.filter(has_text="shop").get_by_text(re.compile("window")).wait_for()
    rows.filter(has_text="shop").get_by_text("2 h 1 min").wait_for()
    rows.filter(has_text="no answer within 3 s").wait_for()
    rows.filter(has_text="prices").get_by_text("nothing answers there").wait_for()
    assert page.title() == "(1) Applications · Ridgeline"
    assert "code=" not in page.url
    accessible(page)
    screenshot(page, "page-apps")
    for number in range(8):
        register(
            Entry(f"x-{number}", f"{HOSTILE}{number}", f"http://127.0.0.1:{3 + number}", host="elsewhere")
        )
    rows.filter(has_text="<img src=x onerror=alert(1)>").get_by_text("nothing answers there").first.wait_for()
    page.get_by_role("status").get_by_text(
        re.compile(r"^12 applications: .*1 does not answer.*10 gone")
    ).wait_for()
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    accessible(page)
    page.get_by_label("Find an application").fill("prices")
    rows.filter(has_text="shop").wait_for(state="detached")
    page.get_by_label("Find an application").fill("shop")
    page.get_by_role("link", name="shop", exact=True).click()
    page.get_by_role("heading", name="shop", exact=True).wait_for()
    assert page.evaluate(RIGHTS)["writes"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_list_and_its_sign_in_can_be_read_by_all(listed, open_page, accessible, screenshot, dark):
    open_page.expected.append("401")
    page = open_page(listed.url, dark=dark)

    def looked_at(name):
        for size in (WIDE, NARROW):
            page.set_viewport_size(size)
            accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
            screenshot(page, f"look-{name}-{size['width']}{'-dark' if dark else ''}")
        assert (
            page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length") == 0
        )

    page.get_by_label("Token").wait_for()
    page.get_by_role("status").get_by_text("Sign in to see your applications.").wait_for()
    looked_at("apps-sign-in")
    page.get_by_label("Token").focus()
    page.keyboard.type(listed.token)
    page.keyboard.press("Enter")
    shop = page.get_by_role("link", name="shop", exact=True)
    shop.wait_for()
    page.get_by_role("row").filter(has_text="prices").get_by_text("nothing answers there").wait_for()
    looked_at("apps")
    for _ in range(30):
        page.keyboard.press("Tab")
        if shop.evaluate("one => one === document.activeElement"):
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="shop", exact=True).wait_for()


def test_without_its_code_the_list_asks_for_its_token(listed, open_page):
    opened = open_page
    page = opened(listed.url)
    page.get_by_label("Token").wait_for()
    assert page.get_by_text("shop").count() == 0
    page.get_by_label("Token").fill(listed.token)
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("link", name="shop", exact=True).wait_for()
    listed.close()
    page.get_by_text("The list does not answer.").wait_for()
    page.get_by_text("stale since").wait_for()
    opened.expected += ["401", "ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET"]
