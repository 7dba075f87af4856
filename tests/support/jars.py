"""Jars for tests that Spark lacks, by Maven, kept in the cache folder of `ridgeline.testing.services`."""

import os
from pathlib import Path

import pytest

from ridgeline.testing.services.parts import Jars
from support.services import Unavailable


def jars(name):
    """The paths of the jars for `tests/support/NAME.xml`; skips the test where they cannot be downloaded."""
    try:
        return Jars(Path(__file__).with_name(f"{name}.xml")).paths
    except Unavailable as error:
        pytest.skip(str(error))


def class_path(name):
    """The jars as one class path, for `spark.driver.extraClassPath` or `java -cp`."""
    return os.pathsep.join(map(str, jars(name)))
