"""A file whose name contains the last window whose rows readers can see."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ridgeline.connect.output_files import OutputFiles


class Marker:
    """The file `<name>-<window>` in a folder, renamed for each window. It exists once `make` returned.

    Methods raise OSError.
    """

    def __init__(self, files: OutputFiles, folder: str, name: str) -> None:
        self._files, self._folder, self._name = files, folder, name
        self.window = -1

    def path(self, window: int) -> str:
        """The marker's path for a window (-1: before the first)."""
        return f"{self._folder}/{self._name}-{window}"

    def find(self, names: Iterable[str]) -> int | None:
        """Find the marker's window among the file names of its folder; None if it is missing. Sets `window`.

        After a crash an older marker may be left; the newest one counts.
        """
        found = max((window for name in names if (window := self.window_of(name)) is not None), default=None)
        self.window = -1 if found is None else found
        return found

    def window_of(self, name: str) -> int | None:
        """The window in the name of a marker; None for another name."""
        found = re.fullmatch(re.escape(self._name) + r"-(-?\d+)", name)
        return int(found[1]) if found else None

    def make(self, window: int) -> None:
        """Create the folder and the marker in it; both survive a power cut once this returns."""
        self._files.make_folder(self._folder)
        self._files.touch(self.path(window))
        self.window = window
        self._files.sync(self._folder)
        self._files.sync_above(self._folder)

    def move(self, window: int) -> None:
        """Rename the marker to a window. A driver that was fenced off may already have done the same."""
        try:
            self._files.move(self.path(self.window), self.path(window))
        except OSError:
            if not self._files.is_file(self.path(window)):
                raise
        self.window = window
