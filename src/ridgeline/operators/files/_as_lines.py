"""Files that are no lines, read as lines of CSV: the rows of a sheet, the records of an XML file."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ridgeline.api.errors import RidgelineError


class AsLines:
    """A file whose content is converted to lines of CSV, in memory. A subclass converts it."""

    grows = False
    what = ""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lines: bytes | None = None
        self.path, self.bytes = file.path, file.bytes

    def open(self) -> pa.NativeFile:
        """The lines. Raises RidgelineError for a file that cannot be read as such."""
        if self._lines is None:
            with self._file.open() as raw:
                data = raw.read(self.bytes)
            try:
                self._lines = self.converted(data)
            except RidgelineError:
                raise
            except Exception as error:
                msg = f"file `{self.path}` is no {self.what} file or corrupt: {error}; mend or remove it, "
                raise RidgelineError(msg + "or set `format`") from error
        return pa.BufferReader(self._lines)

    def check_size(self, found: int | None = None) -> None:
        """Raise RidgelineError if the file has shrunk."""
        if found is None:
            self._file.check_size()

    def place_of(self, byte: int) -> str | None:
        """The words for the place of a line that begins at this byte; None: the number of the line."""
        return None

    def converted(self, data: bytes) -> bytes:
        """The lines of a file. Raises RidgelineError, or errors of a library."""
        raise NotImplementedError
