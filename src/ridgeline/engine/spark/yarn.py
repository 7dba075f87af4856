"""What a driver in YARN's application master asks of it."""

from __future__ import annotations

import logging
from typing import Any

from ridgeline.engine.spark.submitted import active_context

_log = logging.getLogger(__name__)
_MASTER = "org.apache.spark.deploy.yarn.ApplicationMaster$"


def show_page(url: str) -> None:
    """Make the address of the page the tracking address that YARN shows; only in its application master.

    Spark gives YARN the address of its own UI, which is off, and has no call for another one. So the client
    of YARN is taken out of Spark's application master. Where that fails, the log says so.
    """
    context = active_context()
    if context is None or not str(context.master).startswith("yarn"):
        return
    if context.getConf().get("spark.submit.deployMode") != "cluster":
        return
    try:
        java: Any = context._jvm  # noqa: SLF001  there is no other way
        loader = java.java.lang.Thread.currentThread().getContextClassLoader()
        kind = java.java.lang.Class.forName(_MASTER, True, loader)  # noqa: FBT003  Java's own
        spark_client = _field(_field(None, kind, "master"), None, "client")
        _field(spark_client, None, "amClient").updateTrackingUrl(url)
    except Exception as error:  # noqa: BLE001  the application runs on
        _log.warning("YARN does not show the address of the page: %s", str(error).splitlines()[0])


def _field(of: Any, kind: Any, name: str) -> Any:
    """The value of a private field; Scala may put the name of its class before its own."""
    fields = (of.getClass() if kind is None else kind).getDeclaredFields()
    found = next(one for one in fields if one.getName() == name or one.getName().endswith(f"$${name}"))
    found.setAccessible(True)
    return found.get(of)
