"""One version beside the application that runs: the process that `upgrade --shadow` starts for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ridgeline.cli import options
from ridgeline.cli.configuration import load_configured
from ridgeline.cli.running.shadow_recording import ShadowRecording
from ridgeline.cli.settings import RunSettings
from ridgeline.cli.supervising.link import Link, Stops
from ridgeline.plan.spec.imports import APP_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ridgeline.plan.edits import Edit
    from ridgeline.plan.execution import Plan
    from ridgeline.testing.shadow.beside import Job

_NICE = 10


def run_side(context: typer.Context, settings: RunSettings, link: Link) -> None:
    """Run the version that the command line names as the job says that the link has.

    It gives way to the one at work where processors are short. Raises what the version does.
    """
    from ridgeline.cli.running.stopping import Stopper, in_thread
    from ridgeline.engine.driver.checkpoint.planning import Planner
    from ridgeline.testing.shadow.beside import STOP, Beside, Job
    from ridgeline.testing.shadow.standing_in import Stage, stand_in

    job = Job(**(link.shadow or {}))
    os.nice(_NICE)
    configured = load_configured(context, settings.written)
    own = {old: new if new in sys.modules else f"{APP_PREFIX}{new}" for old, new in job.modules.items()}
    job = replace(job, modules=own)

    def planner_of(stage: Stage) -> Planner:
        def make(kept: Mapping[str, object], kept_edits: Sequence[Edit], edits: Sequence[Edit]) -> Plan:
            return stand_in(configured.plan(kept, kept_edits, edits), stage)

        return Planner(
            make,
            options.properties(settings.written.properties or ()),
            known=lambda: configured.resolve().properties,
            resume=settings.resume,
        )

    def stop() -> None:
        Path(job.folder, STOP).touch()

    beside = Beside(job, configured.app.name, planner_of)
    with Stopper(stop, stop) as stopper:
        command = _Command(stopper, job)
        link.follow(command, command.remove_all)
        try:
            in_thread(beside.run)
        finally:
            command.removed()


class _Command:
    """The command that this process belongs to: its signals are passed on, and what it leaves is removed."""

    def __init__(self, stopper: Stops, job: Job) -> None:
        self._stopper = stopper
        self._job = job
        self._removing = threading.Lock()

    def passed_on(self, number: int, count: int) -> None:
        """Take a signal that the command has got."""
        self._stopper.passed_on(number, count)

    def stop(self, why: str) -> None:
        """The command is gone."""
        self.remove_all()

    def remove_all(self) -> None:
        """Remove the recording and all copies, and end this process."""
        with self._removing:
            with contextlib.suppress(Exception):
                recording = ShadowRecording(self._job.checkpoint, self._job.recording)
                recording.stop()
                recording.forget()
            shutil.rmtree(self._job.root, ignore_errors=True)
            os._exit(1)

    def removed(self) -> None:
        """Wait while all is removed: the run ends as soon as its recording does, and this process with it."""
        with self._removing:
            pass
