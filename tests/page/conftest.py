"""One browser for a file, pages that fail a test on any error in their console, and an application."""

import importlib.util
import io
import os
import re
import socket
from pathlib import Path

import pytest
from PIL import Image

from support.page.browser import WIDE
from support.page.shop import shop
from support.programs import CHROMIUM, lacks, path_of
from support.service.living import living

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE_MS = 30_000


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium. Where it is missing, tests are skipped, or fail where services are required."""
    if importlib.util.find_spec("playwright") is None:
        lacks("there is no `playwright`: install requirements/dev.lock")
    path = path_of(CHROMIUM)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


_OTHER_NETWORKS = "ERR_NETWORK_CHANGED"
"""What the browser ends all its requests with when another test makes or removes the network of a cluster."""
_REFUSED = re.compile(r"ERR_CONNECTION_REFUSED.*?://127\.0\.0\.1:(\d+)/")
"""What a page hears that outlives its application, as it asks on."""


class Opened:
    """Opens pages and keeps what their consoles say against them.

    `expected`: patterns of messages that the test brings about.
    """

    def __init__(self, browser):
        self.expected = []
        self._browser = browser
        self._said = []
        self._contexts = []

    def __call__(self, url, *, size=WIDE, dark=False, calm=True, **options):
        """A page in a browser of its own, at an address; `calm`: without movement."""
        context = self._browser.new_context(
            viewport=size,
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce" if calm else "no-preference",
            **options,
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        return self.listen(context.new_page(), url)

    def listen(self, page, url):
        """The page, listened to, at an address."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self._said.append(str(error)))
        while not self._is_whole(page, url):
            self._said = [text for text in self._said if _OTHER_NETWORKS not in text]
            url = None
        return page

    def _is_whole(self, page, url):
        """Whether the page has come with all its files; without an address it is loaded again."""
        from playwright.sync_api import Error

        try:
            if url:
                page.goto(url)
            else:
                page.reload()
        except Error as error:
            if _OTHER_NETWORKS not in str(error):
                raise
            return False
        return not any(_OTHER_NETWORKS in text for text in self._said)

    def _console(self, message):
        if message.type in {"error", "warning"}:
            self._said.append(f"{message.type}: {message.text} ({message.location})")

    def close(self):
        for context in self._contexts:
            context.close()
        expected = [_OTHER_NETWORKS, *self.expected]
        said = [text for text in self._said if not any(re.search(one, text) for one in expected)]
        said = [text for text in said if not _has_ended(text)]
        assert not said, "\n".join(said)


def _has_ended(text):
    """Whether a message is of an application that is not there any more."""
    found = _REFUSED.search(text)
    with socket.socket() as asked:
        return found is not None and asked.connect_ex(("127.0.0.1", int(found[1]))) != 0


@pytest.fixture
def open_page(browser):
    """`open_page(url, size=..., dark=...)`; the test fails if the page says or throws an error."""
    opened = Opened(browser)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def application():
    """The shop, which runs in this process with its web service; see `support.service.living`."""
    with living(shop()) as found:
        yield found


@pytest.fixture
def serving_app():
    """`with serving_app(app, **tokens) as application`: another one than `application`."""
    return living


RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture
def accessible():
    """`accessible(page)`: fails for anything that axe-core finds wrong; animations have ended before."""
    import axe_playwright_python

    source = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")

    def check(page):
        if not page.evaluate("() => 'axe' in window"):
            page.evaluate(source)
        found = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
        wrong = [
            (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:5]])
            for one in found["violations"]
        ]
        assert not wrong, wrong
        small = page.evaluate(
            """() => [...document.querySelectorAll("body *")]
                .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
                .filter((one) => one.checkVisibility() && parseFloat(getComputedStyle(one).fontSize) < 11)
                .map((one) => one.outerHTML.slice(0, 200))"""
        )
        assert not small, small

    return check


@pytest.fixture
def screenshot():
    """`screenshot(page, name)`: as docs show it, in the folder `RIDGELINE_SCREENSHOTS`; without it none.

    In each case the page is drawn first, with the size that it has now.
    """
    folder = os.environ.get("RIDGELINE_SCREENSHOTS")

    def take(page, name, **options):
        if folder:
            page.screenshot(path=Path(folder, f"{name}.png"), animations="disabled", **options)
        else:
            page.evaluate(_DRAWN)

    return take


_DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Film:
    """A moving picture of a page, as it is looked at."""

    def __init__(self, page, path):
        self._page, self._path = page, path
        self._frames = []
        self._times = []

    def look(self, seconds, frames=1):
        """The page as it is now, shown for so long; in several frames if it moves."""
        for _ in range(frames):
            self._frames.append(self._page.screenshot())
            self._times.append(round(1000 * seconds / frames))

    def close(self):
        """Write it as WebP, which begins again at its end."""
        first, *rest = (Image.open(io.BytesIO(frame)) for frame in self._frames)
        first.save(
            self._path, save_all=True, append_images=rest, duration=self._times, loop=0, quality=62, method=4
        )
        return self._path


@pytest.fixture
def film(tmp_path):
    """`film(page, name)`: as `screenshot`, in motion."""
    folder = Path(os.environ.get("RIDGELINE_SCREENSHOTS", tmp_path))
    return lambda page, name: Film(page, folder / f"{name}.webp")
