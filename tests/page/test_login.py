"""A person signs in at a real issuer, Canaille, from the page, and is back where the page was left."""

import pytest
from playwright.sync_api import expect

from ridgeline.service.access.options import AccessOptions
from support.service.identity import PASSWORDS, Provider
from support.service.living import living

pytestmark = pytest.mark.slow


def test_a_person_signs_in_pauses_the_application_and_signs_out(open_page):
    with Provider() as provider:
        open_page.expected = ["401", provider.url]  # before the sign-in; what pages of the issuer say
        options = AccessOptions(
            oidc_issuer=provider.url,
            oidc_client_id=provider.client_id,
            oidc_client_secret=provider.secret,
            oidc_role=("groups=oncall:operate",),
        )
        with living(access=options.access("numbers", print)) as found:
            provider.leads_to(f"{found.server.url}/page/login/callback")
            page = open_page(f"{found.server.url}/#/sinks")
            page.get_by_role("link", name="Sign in at localhost").click()
            page.locator("input[name=login]").fill("ann")
            page.locator("input[name=login]").press("Enter")
            page.locator("input[name=password]").fill(PASSWORDS["ann"])
            page.locator("input[name=password]").press("Enter")
            page.get_by_text("live, ").wait_for()
            assert page.url == f"{found.server.url}/#/sinks"
            expect(page.get_by_role("link", name="Sinks", exact=True)).to_have_attribute(
                "aria-current", "page"
            )
            page.get_by_text("Run", exact=True).click()
            page.get_by_role("button", name="Pause").click()
            page.get_by_role("button", name="Confirm").click()
            page.get_by_role("dialog").get_by_text("applied").wait_for()
            page.keyboard.press("Escape")
            cookies = [one for one in page.context.cookies() if one["name"].startswith("ridgeline")]
            assert [(one["httpOnly"], one["sameSite"]) for one in cookies] == [(True, "Strict")]
            stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])")
            assert "eyJ" not in stored
            page.get_by_role("button", name="Sign out").click()
            page.wait_for_url(f"{provider.url}/**")
            page.goto(found.server.url)
            page.get_by_role("link", name="Sign in at localhost").wait_for()
            page.close()
