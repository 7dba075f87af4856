"""How Spark names the hosts of its executors."""

import pytest

from ridgeline.engine.spark.cores import host_in


@pytest.mark.parametrize(
    ("place", "host"),
    [("h7:41000", "h7"), ("192.0.2.2", "192.0.2.2"), ("[::1]:41000", "[::1]"), ("[::1]", "[::1]")],
)
def test_an_executor_that_has_no_port_yet_has_its_host(place, host):
    assert host_in(place) == host
