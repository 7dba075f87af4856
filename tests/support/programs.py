"""Debian's programs that tests run. As a command: install what they and the servers of tests lack."""

import os
import subprocess

import pytest

from ridgeline.testing.services.parts import Jars, Program
from support import services

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


def main():
    """Install packages of Debian, as root, and jars."""
    kinds = (services.Kafka, services.Registry, services.Postgres, services.MariaDB)
    parts = [CHROMIUM, PROMETHEUS, *(part for kind in kinds for part in kind.PARTS)]
    if packages := sorted({one.package for one in parts if isinstance(one, Program) and one.missing()}):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
        for command in (["apt-get", "update"], install):
            subprocess.run(command, env=environment, check=True)
    for one in parts:
        if isinstance(one, Jars):
            one.install()


if __name__ == "__main__":
    main()
