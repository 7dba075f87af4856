"""Files for post-mortems in a checkpoint folder: nothing reads them, and no run needs them."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

from ridgeline.engine.files.storage import DriverStorage

FOLDER = "debug-dumps"
MOST_FILES = 3
_NAME = re.compile(r"fault-\d{9,}-epoch\d+\.json")
_log = logging.getLogger(__name__)


def write_fault_dump(
    storage: DriverStorage, epoch: int, at: float, dump: Callable[[], Mapping[str, Any]]
) -> str | None:
    """Write what `dump` returns to a file of its own; the newest three are kept. Raises nothing.

    Returns its name with the folder's URI, None if it cannot be written. `at`: seconds since 1970.
    """
    name = f"{FOLDER}/fault-{int(at):010d}-epoch{epoch}.json"
    try:
        storage.write(name, json.dumps(dump(), indent=1).encode())
        known = sorted(one for one in storage.names(FOLDER) if _NAME.fullmatch(one))
        storage.delete([f"{FOLDER}/{one}" for one in known[:-MOST_FILES]])
    except Exception:  # noqa: BLE001  the error of which the driver dies comes first
        _log.warning("the last events and instructions could not be written", exc_info=True)
        return None
    return f"{storage.uri}/{name}"
