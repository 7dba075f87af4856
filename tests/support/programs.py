"""Debian's programs that tests run beside services. As a command: install them, if they are not there."""

import os
import sys

import pytest

from ridgeline.testing.services.parts import Program
from support.services import MariaDB, Registry, Unavailable

CHROMIUM = Program("chromium", "chromium", "usr/bin")
PROMETHEUS = Program("prometheus", "prometheus", "usr/bin")
PROMTOOL = Program("promtool", "prometheus", "usr/bin")


def lacks(what):
    """The test is skipped for something that is missing, or fails where services are required."""
    (pytest.fail if os.environ.get("RIDGELINE_SERVICES_REQUIRED") else pytest.skip)(what)


def path_of(program):
    """The path of a program that a test needs; see `lacks`."""
    if reason := program.missing():
        lacks(f"{reason}: `make services` installs it")
    return program.find()


if __name__ == "__main__":
    for one in (CHROMIUM, PROMETHEUS, *MariaDB.PARTS, *Registry.PARTS):
        try:
            one.install()
        except Unavailable as error:
            sys.exit(f"not to be had: {error}")
        print(f"{one.find()} ... installed")
