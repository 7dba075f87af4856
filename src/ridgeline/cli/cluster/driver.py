"""The start of a driver in YARN's application master: it unpacks the payload, then runs the application."""

from __future__ import annotations

import json
import os
import re
import sys
import zipfile
from pathlib import Path

from ridgeline.cli.cluster.payload import DRIVER, HERE, Driver

PAYLOAD = "ridgeline-submitted.zip"
"""The payload's name in the folder of the container."""
_CONTAINER = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_(\d+)_\d+")


def main() -> None:
    """Run the application that was submitted, as `ridgeline run` does, in the folder of a YARN container."""
    cluster_id, attempt = _attempt(os.environ.get("CONTAINER_ID", ""))
    driver = unpacked(Path(PAYLOAD), Path(HERE))
    prepare(driver, cluster_id)
    resume = driver.resume
    if resume and attempt > 1 and _has_begun(driver):
        print(f"attempt {attempt} of YARN continues: `{' '.join(resume)}` was for the first one")  # noqa: T201
        resume = ()
    node = os.environ.get("NM_HOST", "")
    named = ("--allow-host", node) if node else ()
    own = ("--", *driver.own) if driver.own else ()
    store = ("--store", driver.store, "--store-name", driver.name)
    sys.argv = ["ridgeline", "run", driver.target, *store, *driver.words, *resume, *named, *own]
    from ridgeline.cli.main import main as command

    command()


def _attempt(container: str) -> tuple[str, int]:
    """The application's id on YARN and which attempt this is, by the id of a container.

    >>> _attempt("container_e17_1700000000000_0042_02_000001"), _attempt("")
    (('application_1700000000000_0042', 2), ('', 1))
    """
    found = _CONTAINER.fullmatch(container)
    return ("", 1) if found is None else (f"application_{found[1]}", int(found[2]))


def unpacked(payload: Path, folder: Path) -> Driver:
    """The driver of a payload, whose files are this user's alone."""
    before = os.umask(0o077)
    try:
        with zipfile.ZipFile(payload) as archive:
            archive.extractall(folder)
    finally:
        os.umask(before)
    return Driver.of((folder / DRIVER).read_text())


def prepare(driver: Driver, cluster_id: str, address: str = "") -> None:
    """Set variables and the path of modules. The folder that this process is in was made for it: trust it.

    `cluster_id`: the cluster's name of this driver; `address`: as of `Submission`.
    """
    from ridgeline.api.support import trust
    from ridgeline.service.store.presence import SUBMISSION

    here = Path.cwd()
    os.environ.update(driver.environment)
    if "XDG_CONFIG_HOME" in driver.environment:
        os.environ["XDG_CONFIG_HOME"] = str(here / driver.environment["XDG_CONFIG_HOME"])
    os.environ[trust.SETTING] = ",".join(filter(None, [os.environ.get(trust.SETTING, ""), str(here)]))
    os.environ["RIDGELINE_HOME"] = str(here / f"{HERE}/home")
    said = {"id": driver.id, "mode": "cluster", "cluster_id": cluster_id, "address": address}
    os.environ[SUBMISSION] = json.dumps(said)
    others = [one for one in sys.path if Path(one).resolve() != here]  # without the script's own folder
    sys.path[:] = [*(str(here / root) for root in driver.roots), *others]


def _has_begun(driver: Driver) -> bool:
    """Whether an attempt before has run windows; where the store does not say, it may have."""
    from ridgeline.api.errors import RidgelineError
    from ridgeline.api.support.files import use_s3
    from ridgeline.engine.spark.s3 import s3_settings_of, s3a_from_environment
    from ridgeline.engine.spark.submitted import submitted
    from ridgeline.service.store.folder import EntryFolder

    use_s3(s3_settings_of({**s3a_from_environment(), **submitted()}))
    try:
        found = EntryFolder(driver.store).read(driver.name)
    except RidgelineError:
        return True
    if found is None:
        return False
    return found.entry is None or (found.entry.submission == driver.id and bool(found.entry.run))


__all__ = ["PAYLOAD", "main", "prepare", "unpacked"]
