"""The browser of the tests of pages: Debian's Chromium. As a command: install it, if it is not there."""

import importlib.util
import sys

from ridgeline.testing.services import Unavailable
from ridgeline.testing.services.parts.programs import Program

CHROMIUM = Program("chromium", "chromium", "usr/bin")
WIDE = {"width": 1280, "height": 800}
NARROW = {"width": 390, "height": 800}


def missing():
    """Why no page can be opened here; empty if it can."""
    if importlib.util.find_spec("playwright") is None:
        return "there is no `playwright`: install requirements/dev.lock"
    reason = CHROMIUM.missing()
    return f"{reason}: `make services` installs it" if reason else ""


if __name__ == "__main__":
    try:
        CHROMIUM.install()
    except Unavailable as error:
        sys.exit(f"chromium: not to be had: {error}")
    print("chromium ... installed")
