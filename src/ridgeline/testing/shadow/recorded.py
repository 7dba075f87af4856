"""The windows of an exact recording, as files in the checkpoint of the application that runs."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeline.engine.container.exact_recording import Share
from ridgeline.engine.container.recording import FOLDER
from ridgeline.engine.driver.run.recordings import ENDED, STARTED
from ridgeline.engine.files.storage import LocalStorage

_WINDOW = re.compile(r"w(\d{10})\.json")


class ExactWindows:
    """The windows of one recording. Raises OSError, UntrustedError."""

    def __init__(self, checkpoint: str, recording: str) -> None:
        self._storage = LocalStorage(checkpoint)
        self._recording = recording
        self._folder = f"{FOLDER}/{recording}"
        self._seen: set[int] = set()

    @property
    def outputs(self) -> Sequence[str]:
        """The ports of outputs that are recorded, as `operator.port`."""
        outputs: Sequence[str] = self._known["outputs"]
        return outputs

    @property
    def operators(self) -> set[str]:
        """The names of all operators that are recorded."""
        return {name.rpartition(".")[0] for name in (*self._known["ports"], *self.outputs)}

    @property
    def _known(self) -> Mapping[str, Any]:
        known = json.loads(self._storage.read(f"{FOLDER}/{self._recording}{STARTED}"))
        recording: Mapping[str, Any] = known["recording"]
        return recording

    def has(self, window: int) -> bool:
        """Whether all of a window is there."""
        if window not in self._seen:
            self._seen = set(self.windows())
        return window in self._seen

    def windows(self) -> list[int]:
        """The windows that are there, in order."""
        found = map(_WINDOW.fullmatch, self._storage.names(self._folder))
        return [int(match[1]) for match in found if match]

    def end(self) -> int | None:
        """The window before which the recording has ended; None while it continues."""
        row = self.ended()
        return None if row is None else int(row["endWindow"])

    def ended(self) -> Mapping[str, Any] | None:
        """The recording as it is listed once it has ended; None while it continues."""
        try:
            row: Mapping[str, Any] = json.loads(self._storage.read(f"{FOLDER}/{self._recording}{ENDED}"))
        except FileNotFoundError:
            return None
        return row

    def shares(self, window: int) -> Mapping[str, Sequence[tuple[int, Share]]]:
        """The parts of a window by operator, each with its partition."""
        found: dict[str, list[tuple[int, Share]]] = defaultdict(list)
        for part in self._parts(window):
            if "file" in part:
                data = self._storage.read(f"{self._folder}/{part['file']}")
            else:
                data = base64.b64decode(part["data"])
            found[part["operator"]].append((part["partition"], Share.decode(data)))
        return found

    def remove(self, window: int) -> None:
        """Remove a window that nothing reads any more."""
        names = [f"{self._folder}/{part['file']}" for part in self._parts(window) if "file" in part]
        self._storage.delete([f"{self._folder}/w{window:010d}.json", *names])

    def remove_all(self) -> None:
        """Remove what is left of the recording, which has ended."""
        self._storage.delete(f"{self._folder}/{name}" for name in self._storage.names(self._folder))
        names = self._storage.names(FOLDER)
        self._storage.delete(f"{FOLDER}/{name}" for name in names if name.startswith(f"{self._recording}."))
        with contextlib.suppress(OSError):
            Path(self._storage.uri, self._folder).rmdir()

    def _parts(self, window: int) -> Sequence[Mapping[str, Any]]:
        index = json.loads(self._storage.read(f"{self._folder}/w{window:010d}.json"))
        parts: Sequence[Mapping[str, Any]] = index["parts"]
        return parts
