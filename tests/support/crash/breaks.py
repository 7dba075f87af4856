"""The ways in which the network of a cluster of `alpha` and `beta` is broken, each as a `with`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.crash.hosts import Cluster

DRIVER = ""


def _both(cluster: Cluster, one: str, other: str) -> Iterator[None]:
    cluster.drop(one, other)
    cluster.drop(other, one)
    yield
    cluster.carry(one, other)
    cluster.carry(other, one)


@contextmanager
def cut(cluster: Cluster) -> Iterator[None]:
    """The cable of `beta` is cut."""
    cluster.cut("beta")
    yield
    cluster.mend("beta")


@contextmanager
def gone(cluster: Cluster) -> Iterator[None]:
    """`beta` is gone for all others, and they for it: connections are half open."""
    cluster.half_open("beta")
    yield
    cluster.close_again("beta")


@contextmanager
def to_host(cluster: Cluster) -> Iterator[None]:
    """What the driver sends to `beta` is lost; what `beta` sends comes."""
    cluster.drop(DRIVER, "beta")
    yield
    cluster.carry(DRIVER, "beta")


@contextmanager
def from_host(cluster: Cluster) -> Iterator[None]:
    """What `beta` sends to the driver is lost; what the driver sends comes."""
    cluster.drop("beta", DRIVER)
    yield
    cluster.carry("beta", DRIVER)


@contextmanager
def between(cluster: Cluster) -> Iterator[None]:
    """`alpha` and `beta` cannot reach each other; the driver reaches both."""
    yield from _both(cluster, "alpha", "beta")


@contextmanager
def slow(cluster: Cluster) -> Iterator[None]:
    """`beta` sends and gets 256 kbit/s at most, and packets wait up to 0.4 s."""
    cluster.slow("beta", "256kbit")
    yield
    cluster.slow("beta", None)


@contextmanager
def nameless(cluster: Cluster) -> Iterator[None]:
    """No host's name is known, and the server for them does not answer."""
    cluster.forget_names()
    yield
    cluster.know_names()


BREAKS: dict[str, Callable] = {
    "a cut cable": cut,
    "a host is gone": gone,
    "to a host": to_host,
    "from a host": from_host,
    "between executors": between,
    "a slow link": slow,
    "no names": nameless,
}
