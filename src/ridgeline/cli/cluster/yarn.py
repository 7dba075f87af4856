"""Submits a driver to YARN, by Spark's `spark-submit` in cluster mode, and follows it until it runs."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.api.support.secrets.providers import provided_settings
from ridgeline.cli.cluster import kept, payload
from ridgeline.cli.cluster.driver import PAYLOAD
from ridgeline.cli.errors import CommandError
from ridgeline.cli.output import write
from ridgeline.engine.spark.cluster import spark_program
from ridgeline.service.store.entry import FAILED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ridgeline.cli.settings import RunSettings
    from ridgeline.plan.execution import Plan
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.service.store.standing import Standing
    from ridgeline.settings.layers import Layer

_CLOCK = SystemClock()
_POLL_SECONDS = 0.3
_END_SECONDS = 10.0
_SAID_LINES = 15
_PROGRAM = "ridgeline_driver.py"
_SETTINGS = "spark.properties"
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
_LOOPBACK = ("127.", "localhost", "::1")
_VALIDITY = "spark.yarn.am.attemptFailuresValidityInterval"
"""Old failures do not count, so that an application that lives for months is always started again."""
_FOLLOWS = {"spark.yarn.submit.waitAppCompletion": "true"}


def submit_to_yarn(
    folder: EntryFolder, name: str, settings: RunSettings, layers: Sequence[Layer], plan: Plan
) -> OnYarn:
    """Hand an application that is loaded to YARN. Raises CommandError, RidgelineError."""
    payload.check(settings)
    if not (os.environ.get("HADOOP_CONF_DIR") or os.environ.get("YARN_CONF_DIR")):
        msg = "YARN is found by its configuration; set `HADOOP_CONF_DIR` to the folder with `yarn-site.xml`"
        raise CommandError(msg)
    submission = uuid.uuid4().hex
    settings, made = _served(_stored(settings, name))
    found = folder.read(name)
    last = "" if found is None or found.entry is None else found.entry.submission
    place = kept.make_folder(folder.uri, name, submission, last)
    log = place / "spark-submit.log"
    try:
        payload.write(place / PAYLOAD, settings, layers, submission, name, folder.uri)
        if made:
            kept.keep_token(place, made)
        (place / _PROGRAM).write_text(_START)
        _write_settings(place / _SETTINGS, _spark_settings(settings, plan))
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


def _stored(settings: RunSettings, name: str) -> RunSettings:
    """The settings with a checkpoint whose path starts at the root: the driver runs in another folder."""
    from ridgeline.api.support.files import is_local, local_path

    settings = settings.stored(name)
    checkpoint = settings.options.checkpoint or ""
    place = local_path(checkpoint) if is_local(checkpoint) else checkpoint
    return replace(settings, options=replace(settings.options, checkpoint=place))


def _served(settings: RunSettings) -> tuple[RunSettings, str]:
    """The settings with a web service that other hosts reach, and the token that was made for it, if one."""
    service = settings.service
    if service.no_service:
        return settings, ""
    host = "0.0.0.0" if service.host.startswith(_LOOPBACK) else service.host  # noqa: S104  it asks for a token
    made = "" if service.token or service.tokens else secrets.token_urlsafe(32)
    return replace(settings, service=replace(service, host=host, token=service.token or made or None)), made


def _spark_settings(settings: RunSettings, plan: Plan) -> dict[str, str]:
    """Spark's settings, secrets included: they are in a file, as all users can read a command line."""
    from ridgeline.api.operator import SparkSource

    spark = {_VALIDITY: "1h", **provided_settings(dict(settings.spark)), **_FOLLOWS}
    if not (os.environ.get("PYSPARK_PYTHON") or os.environ.get("PYSPARK_DRIVER_PYTHON")):
        spark.setdefault("spark.pyspark.python", sys.executable)
    if any(isinstance(one.operator, SparkSource) for one in plan.logical.operators):
        spark.setdefault("spark.driver.extraJavaOptions", "-Xss16m")  # as `engine/spark/session.py`
    return spark


def _command(place: Path, name: str, spark: Mapping[str, str]) -> list[str]:
    """The words of `spark-submit`; settings are in a file, and the payload travels as one of Spark's."""
    files = [*filter(None, [spark.get("spark.files")]), (place / PAYLOAD).as_uri()]
    settings = ["--properties-file", str(place / _SETTINGS), "--load-spark-defaults"]
    where = ["--master", "yarn", "--deploy-mode", "cluster", "--name", name]
    return [
        spark_program("spark-submit"),
        *where,
        *settings,
        "--files",
        ",".join(files),
        (place / _PROGRAM).as_uri(),
    ]


def _write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """Write a file of properties, as Java reads it. Raises OSError."""
    import javaproperties

    with open(path, "x", encoding="ascii", opener=trust.private_opener) as file:
        file.write(javaproperties.dumps(settings, timestamp=None))


@dataclass(slots=True)
class OnYarn:
    """A driver that was handed to YARN. `process`: `spark-submit`, which only follows it; `log`: its output.

    `id`: of the submission. `token`: that was made for its web service; "" for none.
    """

    folder: EntryFolder
    name: str
    id: str
    process: subprocess.Popen[bytes]
    log: Path
    cluster_id: str = ""
    token: str = ""

    def wait_until_submitted(self, timeout: float) -> None:
        """Wait until YARN has taken it. Raises RidgelineError if it does not."""
        deadline = _CLOCK.monotonic() + timeout
        while not self._look():
            if self.process.poll() is not None:
                self._remove_secrets(is_refused=True)
                raise self._failure(self.process.returncode)
            if _CLOCK.monotonic() > deadline:
                self.leave()
                late = f"YARN has not taken `{self.name}` within {timeout:g} s"
                msg = f"{late}; see that it runs, and `{self.log}`"
                raise RidgelineError(msg)
            _CLOCK.wait(_POLL_SECONDS)
        self._remove_secrets()
        write(f"{self.name}: YARN has taken it as {self.cluster_id}")
        if self.token:
            write(f"{self.name}: its web service asks for the token {self.token}, which commands here know")
        sys.stdout.flush()

    def wait_until_it_runs(self, timeout: float) -> Standing:
        """Wait for the first sign that it runs. Raises RidgelineError if it fails."""
        deadline = _CLOCK.monotonic() + timeout
        said: tuple[object, ...] = ()
        while True:
            how = self.standing()
            entry = None if how is None else how.found.entry
            if how is not None and entry is not None and entry.state in {"running", "ended"}:
                return how
            if entry is not None and (state := (entry.state, entry.start)) != said:
                said = state
                what = f"failed: {entry.reason}" if entry.state == FAILED else f"starts on `{entry.host}`"
                write(f"{self.name}: its driver {what}")
                sys.stdout.flush()
            if (code := self.process.poll()) is not None:
                raise self._failure(code)
            if _CLOCK.monotonic() > deadline:
                self.leave()
                unseen = "" if entry else "; it has no entry in the store: do all nodes reach that?"
                msg = (
                    f"`{self.name}` does not run after {timeout:g} s, and YARN tries on; see `{self.log}`, "
                    f"or end it by `yarn application -kill {self.cluster_id}`{unseen}"
                )
                raise RidgelineError(msg)
            _CLOCK.wait(_POLL_SECONDS)

    def wait_for_end(self) -> None:
        """Wait until YARN says that it has ended. Raises typer.Exit with 1 if it has failed."""
        while (code := self.process.poll()) is None:
            _CLOCK.wait(_POLL_SECONDS)
        how = self.standing()
        write(f"{self.name} has {'ended' if code == 0 else 'failed'}: {how.words if how else code}")
        if code:
            raise typer.Exit(1)

    def leave(self) -> None:
        """End `spark-submit`: it only looks at YARN. An application that YARN has runs on."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_END_SECONDS)
            if self.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
        self._remove_secrets()

    def standing(self) -> Standing | None:
        """How it stands by its entry; None before it has one, or while the store cannot be read."""
        from ridgeline.service.store.standing import standing_of

        return standing_of(self.folder, self.name, self.id)

    def _remove_secrets(self, *, is_refused: bool = False) -> None:
        """Remove the files that nothing reads any more: YARN has copies, or `spark-submit` has ended.

        It has no copy of the payload where it shares the file system. `is_refused`: it has no application.
        """
        copied = f"/{PAYLOAD} -> " in self._said()  # of a file that it need not copy it says that instead
        names = [_SETTINGS, PAYLOAD] if copied or is_refused else [_SETTINGS]
        for name in names:
            self.log.with_name(name).unlink(missing_ok=True)

    def _look(self) -> bool:
        """Whether YARN has taken it, by the output of `spark-submit`, or its entry where that says little."""
        found = _SUBMITTED.search(self._said())
        if found is not None:
            self.cluster_id = found[1]
        elif (how := self.standing()) is not None and how.found.entry is not None:
            self.cluster_id = how.found.entry.cluster_id
        return bool(self.cluster_id)

    def _failure(self, code: int) -> RidgelineError:
        """The error of an application that has ended before it ran."""
        said = self._said()
        last = "\n".join(said.splitlines()[-_SAID_LINES:])
        if not self.cluster_id:
            what = f"`spark-submit` has ended with code {code}; all that it printed is in `{self.log}`"
            return RidgelineError(f"{what}:\n{last}" if last else what)
        reasons = _DIAGNOSTICS.findall(said)
        why = f": {reasons[-1].strip()[:500]}" if reasons else ""
        if holder := self._holder():
            return CommandError(f"{holder}; YARN has ended {self.cluster_id}")
        where = f"`yarn logs -applicationId {self.cluster_id}` shows what it printed"
        return RidgelineError(f"`{self.name}` has ended on YARN before it ran{why}; {where}")

    def _holder(self) -> str:
        """The error for a name that another submission was quicker to get; "" if none was."""
        from ridgeline.service.store.presence import taken
        from ridgeline.service.store.standing import standing

        with suppress(RidgelineError):
            found = self.folder.read(self.name)
            if found is not None and found.entry is not None and found.entry.submission != self.id:
                how = standing(self.folder, found)
                return taken(how) if how.lives else ""
        return ""

    def _said(self) -> str:
        try:
            return self.log.read_text(errors="replace")
        except OSError:
            return ""


__all__ = ["OnYarn", "submit_to_yarn"]
