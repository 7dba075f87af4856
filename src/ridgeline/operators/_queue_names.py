"""Queues by name: a small file for each in the user's home says which folder an application writes to."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from ridgeline.api.errors import RidgelineError
from ridgeline.operators._queue_objects import folder_of


def _home() -> Path:
    home = os.environ.get("RIDGELINE_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".ridgeline") / "queues"


def remember(application: str, queue: str, path: str) -> None:
    """Note where an operator of an application writes its queue. Raises OSError."""
    home = _home()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(json.dumps([application, queue, path]).encode()).hexdigest()[:16]
    file = home / f"{name}.json"
    if not file.exists():
        _forget_removed(home)
        beside = file.with_suffix(f".{os.getpid()}.tmp")
        beside.write_text(json.dumps({"application": application, "queue": queue, "path": path}), "utf-8")
        beside.replace(file)


def _forget_removed(home: Path) -> None:
    """Remove the files of folders that are not there any more."""
    for file in home.glob("*.json"):
        with suppress(OSError, ValueError, LookupError, TypeError):
            path = json.loads(file.read_text("utf-8"))["path"]
            if path.startswith("/") and not Path(path).exists():
                file.unlink(missing_ok=True)


def find(application: str, queue: str) -> str:
    """The folder of the queue that an operator of an application writes.

    Raises RidgelineError if there is none, or if applications of this name have several.
    """
    found, known = [], []
    for file in sorted(_home().glob("*.json")):
        with suppress(OSError, ValueError, LookupError, TypeError, RidgelineError):
            noted = json.loads(file.read_text("utf-8"))
            is_there = _writer(noted["path"]) == (noted["application"], noted["queue"])
            if not is_there and noted["path"].startswith("/"):
                file.unlink(missing_ok=True)  # it was removed, or another one writes there now
            elif is_there:
                known.append(f"`{noted['application']}`, `{noted['queue']}`")
                if (noted["application"], noted["queue"]) == (application, queue):
                    found.append(noted["path"])
    if len(found) == 1:
        return str(found[0])
    if found:
        places = " and ".join(f"`{path}`" for path in found)
        msg = f"applications called `{application}` write queues `{queue}` to {places}; give `path`"
        raise RidgelineError(msg)
    there = f"there are {'; '.join(sorted(set(known)))}" if known else "this user has written none"
    msg = f"there is no queue `{queue}` of application `{application}`: {there}; start that application "
    msg += "first, or give `path`"
    raise RidgelineError(msg)


def _writer(path: str) -> tuple[object, object]:
    """The application and the operator that write to a folder."""
    description = folder_of(path).description
    return description.get("application"), description.get("operator")
