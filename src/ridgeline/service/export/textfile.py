"""The last metrics of a run in a file, for who reads files: node_exporter's textfile collector."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from ridgeline.api.errors import RidgelineError
from ridgeline.observe.answers import Answers
from ridgeline.service.export.prometheus import Exposition


class MetricsFile:
    """A file that is not there while the run is scraped, and has its last metrics once it has ended.

    Raises RidgelineError if it cannot be written.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._hidden = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        if self._path.suffix != ".prom":
            raise RidgelineError(
                f"`--metrics-file {path}` must end in `.prom`: collectors read no other files"
            )
        try:
            self._hidden.touch()
            self._hidden.unlink()
            self._path.unlink(missing_ok=True)
        except OSError as error:
            remedy = "give one in a folder that exists"
            raise RidgelineError(
                f"`--metrics-file {path}` cannot be written: {error.strerror}; {remedy}"
            ) from error

    def write(self, watch: Answers, failed: Callable[[str], None]) -> None:
        """Write the metrics as of now, at once. `failed` is called with the reason if it cannot be."""
        try:
            self._hidden.write_bytes(Exposition(watch).render())
            self._hidden.rename(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._hidden.unlink(missing_ok=True)
            failed(f"`--metrics-file {self._path}` cannot be written: {error.strerror}")
