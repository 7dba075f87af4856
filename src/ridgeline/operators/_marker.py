"""A file whose name holds the last window whose rows have been handed to readers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ridgeline.operators._output_files import OutputFiles


class Marker:
    """The file `<name>-<window>` in a folder.

    It is renamed from window to window, so it is there from `make` on. Raises OSError.
    """

    def __init__(self, files: OutputFiles, folder: str, name: str) -> None:
        self._files, self._folder, self._name = files, folder, name
        self.window = -1

    def path(self, window: int) -> str:
        """The marker's path when it stands at a window (-1: before the first)."""
        return f"{self._folder}/{self._name}-{window}"

    def find(self, names: Iterable[str]) -> int | None:
        """Where the marker stands, as the names in its folder say; None if it is not there.

        After a crash there may be an older one too.
        """
        found = max((window for name in names if (window := self.window_of(name)) is not None), default=None)
        self.window = -1 if found is None else found
        return found

    def window_of(self, name: str) -> int | None:
        """The window in the name of a marker; None for another name."""
        found = re.fullmatch(re.escape(self._name) + r"-(-?\d+)", name)
        return int(found[1]) if found else None

    def make(self, window: int) -> None:
        """Make the folder and the marker in it, so that they outlive a power cut."""
        self._files.make_folder(self._folder)
        self._files.touch(self.path(window))
        self.window = window
        folder = self._folder
        while folder != self._files.root and folder:
            self._files.sync(folder)
            folder = folder.rpartition("/")[0]
        for last in (self._files.root, self._files.root.rpartition("/")[0] or "/"):
            self._files.sync(last)

    def move(self, window: int) -> None:
        """Let the marker stand at a window. A driver that was fenced off may just have done the same."""
        try:
            self._files.move(self.path(self.window), self.path(window))
        except OSError:
            if not self._files.is_file(self.path(window)):
                raise
        self.window = window
