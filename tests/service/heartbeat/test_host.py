"""Where the heartbeat port is, as Spark's settings say."""

import socket

import pytest

from ridgeline.service.heartbeat.host import heartbeat_host


@pytest.fixture(autouse=True)
def without_environment(monkeypatch):
    for name in ("SPARK_LOCAL_IP", "SPARK_PUBLIC_DNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]", "local-cluster[2,1,1024]"])
def test_local_masters_stay_on_loopback(master):
    assert heartbeat_host(master, {"spark.driver.host": "driver"}) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize(
    ("conf", "hosts"),
    [
        ({"spark.driver.host": "driver"}, ("driver", "driver")),
        ({"spark.driver.host": "driver", "spark.driver.bindAddress": "0.0.0.0"}, ("0.0.0.0", "driver")),
        ({"spark.driver.host": "[fd00::1]", "spark.driver.bindAddress": "[::]"}, ("::", "fd00::1")),
    ],
)
def test_settings_of_the_driver(conf, hosts):
    assert heartbeat_host("k8s://https://10.0.0.1:6443", conf) == hosts


def test_environment_of_spark(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "10.1.1.1")
    assert heartbeat_host("yarn", {}) == ("10.1.1.1", "10.1.1.1")
    monkeypatch.setenv("SPARK_PUBLIC_DNS", "driver.example")
    assert heartbeat_host("yarn", {}) == ("10.1.1.1", "driver.example")


def test_the_way_to_the_master():
    assert heartbeat_host("spark://127.0.0.1:7077", {}) == ("127.0.0.1", "127.0.0.1")


@pytest.mark.parametrize("master", ["yarn", "spark://no.such.host.invalid:7077"])
def test_without_any_hint_some_own_address(master):
    bound, advertised = heartbeat_host(master, {})
    assert bound == advertised
    assert socket.getaddrinfo(bound, 0)
