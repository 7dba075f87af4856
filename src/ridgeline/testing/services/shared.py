"""One service of a kind for the whole process, as each start costs seconds."""

import atexit
import threading
from typing import TypeVar, cast

from ridgeline.testing.services.service import Service

S = TypeVar("S", bound=Service)
_LOCK = threading.Lock()
_SERVICES: dict[type[Service], Service] = {}


def shared(kind: type[S]) -> S:
    """The service of this kind that the process shares; it runs, without faults, and ends with the process.

    Args:
        kind: its class, such as `services.kafka`.

    Raises:
        ServiceError: if it does not start.
    """
    with _LOCK:
        if kind not in _SERVICES:
            _SERVICES[kind] = kind()
        return cast("S", _SERVICES[kind].recover())


@atexit.register
def _close_all() -> None:
    with _LOCK:
        while _SERVICES:
            _SERVICES.popitem()[1].close()
