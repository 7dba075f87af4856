"""Where the heartbeat port is: what it is bound to and what workers connect to."""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Mapping
from typing import Any

_LOOPBACK = "127.0.0.1"


def heartbeat_host(master: str, conf: Mapping[str, Any]) -> tuple[str, str]:
    """(the host to bind to, the host that workers connect to), as Spark chooses them for its own driver.

    With `local` masters, `local-cluster` too, loopback: no worker is elsewhere. On a cluster it is
    `spark.driver.host` and `spark.driver.bindAddress` (default: the same) of the settings. Without them it is
    `SPARK_LOCAL_IP` or `SPARK_PUBLIC_DNS`, else this machine's address on the way to the master.
    """
    if master.startswith("local"):
        return _LOOPBACK, _LOOPBACK
    local = os.environ.get("SPARK_LOCAL_IP")
    advertised = (
        conf.get("spark.driver.host") or os.environ.get("SPARK_PUBLIC_DNS") or local or _own_address(master)
    )
    bound = conf.get("spark.driver.bindAddress") or local or advertised
    return _plain(bound), _plain(advertised)


def _plain(host: str) -> str:
    """An IPv6 address without brackets."""
    return str(host).strip("[]")


def _own_address(master: str) -> str:
    """The address of the interface through which packets to the master would go; nothing is sent."""
    found = re.search(r"://(?:https?://)?(\[[^]]+\]|[^:/,]+)", master)
    for target in ([_plain(found.group(1))] if found else []) + [
        "198.51.100.1"
    ]:  # the last: no such host; it selects the default route
        with contextlib.suppress(OSError):
            family, kind, protocol, _, address = socket.getaddrinfo(target, 9, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
    return socket.gethostname()
