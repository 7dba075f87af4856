"""`run.json`: the application of a checkpoint folder, and its run's id, which is in the names of outputs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ridgeline.api.errors import CheckpointError
from ridgeline.api.support.sealed import seal, unseal
from ridgeline.engine.files.storage import DriverStorage, Storage

NAME = "run.json"
REGIONS = "regions.json"
"""In its place, where the folder holds runs of several regions, each in a folder of its own."""
FORMAT = 10
_FOLDERS = ("journal", "committed", "epochs", "state", "spark/offsets", "spark/commits")
"""Where a run writes after its description: if one of these holds a file, there was a description."""


def identify(storage: DriverStorage, application: str) -> str:
    """The id of the run that a folder holds; of a new run in a fresh folder.

    Raises CheckpointError if the folder is another application's, or its description is damaged or missing,
    OSError.
    """
    what = f"`{storage.uri}/{NAME}`"
    found = read_if_there(storage, NAME)
    if found is None and read_if_there(storage, REGIONS) is not None:
        msg = f"checkpoint folder `{storage.uri}` holds a run of several regions, and no stream of "
        msg += f"`{application}` is decoupled now: decouple the same streams as before, or give another "
        msg += "`--checkpoint`"
        raise CheckpointError(msg)
    if found is None:
        left = next((f"{folder}/{name}" for folder in _FOLDERS for name in storage.names(folder)), None)
        found = read_if_there(storage, NAME)  # another driver may have begun meanwhile
        if left and found is None:
            remedy = "restore it from a copy of this folder, or give another `--checkpoint`"
            found_run = f"the folder holds a run (`{left}`), whose id names its outputs"
            msg = f"{what} is missing, but {found_run}; {remedy}"
            raise CheckpointError(msg)
    run = {"format": FORMAT, "application": application, "run_id": uuid.uuid4().hex[:8]}
    created = found is None and storage.create(NAME, seal(NAME, run))
    if not created:
        storage.settle([NAME])  # who made it may have died before a power cut could not undo that
    return _run_id(storage, application, found or storage.read(NAME))


def described(storage: DriverStorage, application: str) -> str | None:
    """The id of the run that a folder holds, None of a folder that is described as no run's.

    Raises as `identify`.
    """
    found = read_if_there(storage, NAME)
    return None if found is None else _run_id(storage, application, found)


def describe_run(storage: DriverStorage) -> tuple[str, str]:
    """The application and the id of the run that a folder holds. Raises CheckpointError, OSError."""
    found = read_if_there(storage, NAME)
    if found is None:
        raise CheckpointError(
            f"`{storage.uri}` holds no run: there is no `{NAME}` in it; give the folder of a checkpoint"
        )
    run = unseal(NAME, found, f"`{storage.uri}/{NAME}`", FORMAT)
    return str(run["application"]), str(run["run_id"])


def _run_id(storage: DriverStorage, application: str, found: bytes) -> str:
    try:
        run = unseal(NAME, found, f"`{storage.uri}/{NAME}`", FORMAT)
    except CheckpointError as error:
        raise CheckpointError(f"{error}, or give another `--checkpoint`") from None
    if run["application"] != application:
        owner = f"belongs to application `{run['application']}`; this is `{application}`"
        raise CheckpointError(f"checkpoint folder `{storage.uri}` {owner}; give another `--checkpoint`")
    return str(run["run_id"])


def read_regions(storage: Storage) -> list[dict[str, Any]] | None:
    """The regions that a folder holds the runs of, as `write_regions` was given; None if it holds no such.

    Raises CheckpointError if the file is damaged, OSError.
    """
    data = read_if_there(storage, REGIONS)
    if data is None:
        return None
    regions: list[dict[str, Any]] = unseal(REGIONS, data, f"`{storage.uri}/{REGIONS}`", FORMAT)["regions"]
    return regions


def write_regions(storage: DriverStorage, regions: Sequence[dict[str, Any]]) -> None:
    """Note the regions: `name`, `number` and `operators` of each. Raises OSError."""
    storage.write(REGIONS, seal(REGIONS, {"format": FORMAT, "regions": list(regions)}))


def read_if_there(storage: Storage, name: str) -> bytes | None:
    """A whole file; None without one. Raises OSError."""
    try:
        return storage.read(name)
    except FileNotFoundError:
        return None
