"""The page by TLS: it is live, it changes the application, and a client's certificate reads."""

import pytest

from ridgeline.service.tls.options import TlsOptions
from ridgeline.service.tls.serving import secured
from support.service.certificates import Authority
from support.service.living import living

pytestmark = pytest.mark.slow


def test_it_is_live_and_pauses_the_application(open_page, tmp_path, monkeypatch):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path))
    with living(secured=secured(TlsOptions(web_tls=True), "numbers")) as found:
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


def test_a_clients_certificate_shows_it_and_changes_nothing(open_page, tmp_path):
    authority = Authority(tmp_path)
    signed = authority.sign("web")
    ann = authority.sign("ann", hosts=(), client=True)
    options = TlsOptions(
        web_cert=str(signed.certificate), web_key=str(signed.key_file), client_ca=str(authority.file)
    )
    with living(secured=secured(options, "numbers")) as found:
        presented = {"origin": found.server.url, "certPath": ann.certificate, "keyPath": ann.key_file}
        page = open_page(found.server.url, ignore_https_errors=True, client_certificates=[presented])
        page.get_by_text("live, ").wait_for()
        page.get_by_role("row").filter(has_text="sums").first.wait_for()
        assert not found.run.paused
        page.close()
