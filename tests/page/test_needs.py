"""A person who may only read is shown which role a control needs, and as whom the page is known."""

import pytest
from playwright.sync_api import expect

from ridgeline.service.access.access import Access
from ridgeline.service.access.roles import Role
from ridgeline.service.access.rules import Rule
from ridgeline.service.access.rules_file import RulesFile, add_rule, new_token, token_rule
from support.page.shop import shop
from support.service.living import living

pytestmark = pytest.mark.slow


@pytest.fixture
def file(tmp_path):
    """A tokens file, and a token for each of two people."""
    path, tokens = str(tmp_path / "tokens"), {}
    for name, role in (("rita", Role.READ), ("olaf", Role.OPERATE)):
        tokens[name] = new_token()
        add_rule(path, token_rule(name, tokens[name], Rule(name, role, b"", (), None)))
    return path, tokens


def sign_in(page, token):
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_each_control_says_the_role_that_it_needs(file, open_page, accessible, screenshot):
    path, tokens = file
    with living(shop(), access=Access("shop", RulesFile(path, lambda _: None))) as application:
        open_page.expected.append("401|403")
        page = open_page(f"{application.server.url}/")
        sign_in(page, tokens["rita"])
        page.get_by_text("live, ").wait_for()
        page.locator("summary", has_text="Run").click()
        said = "This needs the role operate. This page is known as rita, with the role read."
        pause = page.get_by_role("button", name="Pause…")
        expect(pause).to_have_accessible_description(said)
        page.get_by_text(said).wait_for()
        accessible(page)
        screenshot(page, "needs")
        pause.click()
        page.get_by_role("dialog").get_by_text(said).wait_for()
        accessible(page)
        page.keyboard.press("Escape")
        page.evaluate("location.hash = '#/log'")
        page.get_by_role("main").get_by_text(said).wait_for()
        sign_in(page, tokens["olaf"])
        page.get_by_text(said).first.wait_for(state="detached")
