"""The browser of the tests of pages: Debian's Chromium."""

import importlib.util

from support.programs import CHROMIUM

WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 800}


def missing():
    """Why no page can be opened here; empty if it can."""
    if importlib.util.find_spec("playwright") is None:
        return "there is no `playwright`: install requirements/dev.lock"
    reason = CHROMIUM.missing()
    return f"{reason}: `make services` installs it" if reason else ""
