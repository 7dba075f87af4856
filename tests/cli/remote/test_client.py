"""The client against the real web service, and against servers that are none."""

import pytest

from ridgeline.cli.errors import CommandError
from ridgeline.cli.remote.client import Client


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "http://host:0"])
def test_what_is_no_address(url):
    with pytest.raises(CommandError, match="is no address of an application; give `http://host:port`"):
        Client(url)
