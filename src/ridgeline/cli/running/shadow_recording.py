"""The recording that a version beside is fed from: asked for, ended and removed by the command."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ridgeline.api.clock import SystemClock
from ridgeline.api.errors import RidgelineError
from ridgeline.service import registry

if TYPE_CHECKING:
    from ridgeline.cli.remote.client import Client
    from ridgeline.testing.shadow.recorded import ExactWindows

_CLOCK = SystemClock()
_POLL_SECONDS = 0.2
_STOP_SECONDS = 5
_WRITTEN_SECONDS = 5.0
"""How long the last windows of a recording may take to be written."""


@dataclass(frozen=True, slots=True)
class ShadowRecording:
    """The exact recording `id` of the application that runs with a checkpoint."""

    checkpoint: str
    id: str

    @property
    def windows(self) -> ExactWindows:
        """Its windows."""
        from ridgeline.testing.shadow.recorded import ExactWindows

        return ExactWindows(self.checkpoint, self.id)

    def stop(self) -> int | None:
        """End it before the next window, and return that; None if the application does not say it."""
        client = client_of(self.checkpoint)
        if client is None:
            return None
        with contextlib.suppress(RidgelineError):
            row = client.post(f"/recordings/{self.id}/stop")
            if row["state"] == "QUEUED":
                row = client.get(f"/changes/{row['id']}", wait=_STOP_SECONDS)
            return row["window"] if row["state"] == "APPLIED" else None
        return None

    def forget(self) -> None:
        """Remove its files, once its last windows are written or the application is gone."""
        windows = self.windows
        deadline = _CLOCK.monotonic() + _WRITTEN_SECONDS
        with contextlib.suppress(OSError, RidgelineError):
            while windows.end() is None and is_running(self.checkpoint) and _CLOCK.monotonic() < deadline:
                _CLOCK.wait(_POLL_SECONDS)
            windows.remove_all()


def is_running(checkpoint: str) -> bool:
    """Whether an application runs with this checkpoint."""
    return any(one.checkpoint == checkpoint for one in registry.running())


def client_of(checkpoint: str) -> Client | None:
    """A client of the application as it runs now with a checkpoint: it may have been started again."""
    from ridgeline.cli.remote.client import Client

    found = [one for one in registry.running() if one.checkpoint == checkpoint]
    return Client(found[-1].url, found[-1].token) if found else None
