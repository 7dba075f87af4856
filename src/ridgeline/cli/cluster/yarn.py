"""Submits a driver to YARN, by Spark's `spark-submit` in cluster mode, and follows it until it runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.api.support.secrets.providers import provided_settings
from ridgeline.cli.cluster import kept, payload
from ridgeline.cli.cluster.driver import PAYLOAD
from ridgeline.cli.cluster.submission import PROGRAM, SETTINGS, command, served, stored, write_settings
from ridgeline.cli.cluster.taken import Taken
from ridgeline.cli.errors import CommandError
from ridgeline.engine.spark.cluster import failure_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ridgeline.cli.settings import RunSettings
    from ridgeline.plan.execution import Plan
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.settings.layers import Layer

_START = """\
import sys

try:
    from ridgeline.cli.cluster.driver import main
except ImportError as error:
    sys.exit(
        f"the Python of YARN's application master, `{sys.executable}`, has no ridgeline that fits: {error}; "
        "give `ridgeline submit` the environment by `--archives`, or install it on all nodes"
    )
if __name__ == "__main__":
    main()
"""
_SUBMITTED = re.compile(r"(?:Submitted application|Application report for) (application_\d+_\d+)")
_DIAGNOSTICS = re.compile(r"diagnostics: (?!N/A|AM container is launched)(\S.*)")
_VALIDITY = "spark.yarn.am.attemptFailuresValidityInterval"
"""Old failures do not count, so that an application that lives for months is always started again."""
_FOLLOWS = {"spark.yarn.submit.waitAppCompletion": "true"}


def submit_to_yarn(
    folder: EntryFolder, name: str, settings: RunSettings, layers: Sequence[Layer], plan: Plan
) -> OnYarn:
    """Hand an application that is loaded to YARN. Raises CommandError, RidgelineError."""
    _check(settings)
    submission = uuid.uuid4().hex
    settings, made = served(stored(settings, name))
    found = folder.read(name)
    last = "" if found is None or found.entry is None else found.entry.submission
    place = kept.make_folder(folder.uri, name, submission, last)
    log = place / "spark-submit.log"
    try:
        payload.write(place / PAYLOAD, settings, layers, submission, name, folder.uri)
        if made:
            kept.keep_token(place, made)
        (place / PROGRAM).write_text(_START)
        write_settings(place / SETTINGS, _spark_settings(settings, plan))
        with open(log, "xb", opener=trust.private_opener) as out:
            process = subprocess.Popen(  # noqa: S603  Spark's own
                _command(place, name, settings.spark),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        msg = f"`{place}` cannot be written: {error.strerror or error}; make room there, or set "
        raise RidgelineError(msg + "`RIDGELINE_HOME`") from None
    return OnYarn(folder, name, submission, process, log, token=made)


def _check(settings: RunSettings) -> None:
    """Refuse what makes no sense for a driver on YARN, or lacks something. Raises CommandError."""
    supervision = settings.supervision
    for option, given in (("--supervise", supervision.supervise), ("--standby", supervision.standby)):
        if given:
            raise CommandError(
                f"`{option}` is for drivers of a host, and YARN starts a driver again by itself "
                "(`--conf spark.yarn.maxAppAttempts=N`); leave it out"
            )
    payload.check_files(settings, "that YARN removes at the end", "the node")
    if not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        raise CommandError(
            "YARN is found by its configuration; set `HADOOP_CONF_DIR` to the folder with `yarn-site.xml`"
        )


def _spark_settings(settings: RunSettings, plan: Plan) -> dict[str, str]:
    """Spark's settings, secrets included: they are in a file, as all users can read a command line."""
    from ridgeline.api.operator import SparkSource

    spark = {
        _VALIDITY: "1h",
        **failure_settings("yarn"),
        **provided_settings(dict(settings.spark)),
        **_FOLLOWS,
    }
    if not (os.environ.get("PYSPARK_PYTHON") or os.environ.get("PYSPARK_DRIVER_PYTHON")):
        spark.setdefault("spark.pyspark.python", sys.executable)
    if any(isinstance(one.operator, SparkSource) for one in plan.logical.operators):
        spark.setdefault("spark.driver.extraJavaOptions", "-Xss16m")  # as `engine/spark/session.py`
    return spark


def _command(place: Path, name: str, spark: Mapping[str, str]) -> list[str]:
    """The words of `spark-submit`; the payload travels as one of Spark's files."""
    files = [*filter(None, [spark.get("spark.files")]), (place / PAYLOAD).as_uri()]
    return command(place, name, "yarn", (place / PROGRAM).as_uri(), files)


@dataclass(slots=True)
class OnYarn(Taken):
    """A driver that was handed to YARN."""

    cluster: ClassVar[str] = "YARN"

    def look(self) -> bool:
        """Whether YARN has taken it, by the output of `spark-submit`, or its entry where that says little."""
        found = _SUBMITTED.search(self.said())
        if found is not None:
            self.cluster_id = found[1]
        elif (how := self.standing()) is not None and how.found.entry is not None:
            self.cluster_id = how.found.entry.cluster_id
        return bool(self.cluster_id)

    def remove_secrets(self, *, is_refused: bool = False) -> None:
        """Remove the files that nothing reads any more: YARN has copies, or `spark-submit` has ended.

        It has no copy of the payload where it shares the file system. `is_refused`: it has no application.
        """
        copied = f"/{PAYLOAD} -> " in self.said()  # of a file that it need not copy it says that instead
        names = [SETTINGS, PAYLOAD] if copied or is_refused else [SETTINGS]
        for name in names:
            self.log.with_name(name).unlink(missing_ok=True)

    def ending_command(self) -> str:
        """That of YARN."""
        return f"yarn application -kill {self.cluster_id}"

    def printed(self) -> str:
        """That of YARN."""
        return f"`yarn logs -applicationId {self.cluster_id}`"

    def reason(self) -> str:
        """Its diagnostics."""
        reasons = _DIAGNOSTICS.findall(self.said())
        return reasons[-1].strip()[:500] if reasons else ""


__all__ = ["OnYarn", "submit_to_yarn"]
