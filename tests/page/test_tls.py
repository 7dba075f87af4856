"""The page by TLS: it is live, and it changes the application."""

import pytest

from ridgeline.service.tls.serving import ServedTls
from support.service.certificates import Authority
from support.service.living import living

pytestmark = pytest.mark.slow


def test_it_is_live_and_pauses_the_application(open_page, tmp_path):
    signed = Authority(tmp_path).sign("web")
    with living(tls=ServedTls(signed.certificate, signed.key_file)) as found:
        page = open_page(found.server.page(), ignore_https_errors=True)
        page.get_by_text("live, ").wait_for()
        page.get_by_text("Run", exact=True).click()
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Confirm").click()
        page.get_by_role("dialog").get_by_text("applied").wait_for()
        assert found.run.paused
        (cookie,) = page.context.cookies()
        assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        page.close()
