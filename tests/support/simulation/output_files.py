"""The folder of a `FileOutput` on a simulated disk: the engine's own publisher and operator run over it."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pyarrow as pa

from ridgeline.connect.output_files import OutputFiles, SummedStream
from ridgeline.operators._file_publisher import FilePublisher
from ridgeline.operators.file_output import FileOutput
from support.simulation.disk import Disk, File
from support.simulation.process import Process

FOLDER = "/out"


class SimulatedOutputFiles(OutputFiles):
    """An `OutputFiles` of a process. The publisher that opens one says first whose it is (`opens`).

    In an object store a file is there at once and whole, and a move copies, then deletes.
    """

    opens: ClassVar[Any] = None

    def __init__(self, uri: str, process: Process | None = None) -> None:
        self.root = uri
        self._process: Any = process or self.opens
        self._local = not self._process.world.case.store

    @property
    def _disk(self) -> Disk:
        disk: Disk = self._process.world.disk
        return disk

    def _file(self, path: str) -> File:
        try:
            return self._disk.names[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "simulated", path) from None

    def _put(self, path: str, data: bytes) -> None:
        """Let a store have a file."""
        if self._disk.full:
            raise OSError(errno.EDQUOT, "simulated")
        file = File(data)
        file.sync()
        self._disk.link(path, file)
        self._disk.sync_folder(path.rpartition("/")[0])

    @contextmanager
    def writing(self, path: str) -> Iterator[SummedStream]:
        """Its name first, then what is in it, then a sync."""
        written = io.BytesIO()
        if not self._local:
            yield SummedStream(written, path.rpartition("/")[2])
            self._process.point("output put")
            self._put(path, written.getvalue())
            return
        self._process.point("output open")
        self._in_folder(path)
        file = File()
        self._disk.link(path, file)
        yield SummedStream(written, path.rpartition("/")[2])
        self._process.point("output write")
        self._disk.write(file, written.getvalue(), 0)
        self._process.point("output sync")
        self._disk.sync(file)

    def _in_folder(self, path: str) -> None:
        if not self.is_folder(path.rpartition("/")[0]):
            raise FileNotFoundError(errno.ENOENT, "simulated", path)

    def touch(self, path: str) -> None:
        """Create it, unless it is there."""
        self._process.point("output touch")
        if not self._local:
            self._put(path, b"")
        elif path not in self._disk.names:
            self._in_folder(path)
            self._disk.link(path, File())

    def reading(self, path: str) -> io.BytesIO:
        self._process.point("output read")
        return io.BytesIO(bytes(self._file(path).data))

    def read(self, path: str) -> pa.Buffer:
        return pa.py_buffer(self.reading(path).getvalue())

    def move(self, source: str, target: str) -> None:
        self._process.point("output move")
        if source == target:
            return
        if self._local:
            self._file(source)
            self._disk.rename(source, target)
        else:
            self._put(target, bytes(self._file(source).data))
            self._process.point("output copied")
            self.delete(source)
        self._process.point("output moved")

    def delete(self, path: str) -> None:
        self._process.point("output delete")
        if path in self._disk.names:
            self._disk.link(path, None)
            if not self._local:
                self._disk.sync_folder(path.rpartition("/")[0])

    def make_folder(self, path: str) -> None:
        self._process.point("output folder")
        if self._local:
            self._disk.make_folder(path)

    def sync(self, folder: str) -> None:
        """Sync its names. Raises OSError."""
        if self._local:
            self._process.point("output settle")
            self._disk.fail_sync()
            self._disk.sync_folder(folder.rstrip("/"))
            self._process.point("output settled")

    def sync_above(self, folder: str) -> None:
        """Sync its name, and those above. Raises OSError."""
        while folder:
            folder = folder.rpartition("/")[0]
            self.sync(folder)

    def is_folder(self, path: str) -> bool:
        """In a store there are none."""
        return path in self._disk.made

    def is_file(self, path: str) -> bool:
        return path in self._disk.names

    def holds(self, path: str, size: int) -> bool:
        return not self._local or (path in self._disk.names and len(self._disk.names[path].data) == size)

    def names(self, folder: str) -> list[str]:
        self._process.point("output list")
        inner = {one.rpartition("/")[2] for one in self._disk.made if one.rpartition("/")[0] == folder}
        return sorted(inner | self._disk.folders.get(folder, set()))

    def below(self, folder: str) -> list[str]:
        self._process.point("output list")
        return sorted(name[len(folder) + 1 :] for name in self._disk.names if name.startswith(f"{folder}/"))

    def sizes(self, folder: str) -> dict[str, int]:
        self._process.point("output list")
        names = sorted(self._disk.folders.get(folder, ()))
        return {name: len(self._disk.names[f"{folder}/{name}"].data) for name in names}


class SimulatedPublisher(FilePublisher):
    """The engine's own, which opens the files of the driver whose it is."""

    def open(self, context: Any, state: Any) -> None:
        SimulatedOutputFiles.opens = context.console
        super().open(context, state)


class SimulatedFileOutput(FileOutput):
    """The engine's own; its slot gives it `life` after `setup`."""

    def setup(self, context: Any) -> None:
        """Its slot has no files yet."""
        self._on_disk = False

    def write(self, rows: pa.Table) -> None:
        """Write to the files of the slot."""
        self._files = self.life.files
        self._hidden = hidden_folder(self.context.run_id)
        super().write(rows)
        self.life.may_fail()

    def publisher(self) -> FilePublisher:
        """The part that runs on the driver."""
        return SimulatedPublisher(self, str(self.path), self.format)


def hidden_folder(run_id: str) -> str:
    return f"{FOLDER}/.ridgeline/output-{run_id}"


def write_segment(
    files: OutputFiles, run_id: str, window_id: int, attempt: str, numbers: list[int]
) -> tuple[str, int, int, str, int]:
    """What a light container does in the place of `FileOutput`."""
    name = f"w{window_id:010d}-p0-{attempt}.segment"
    with files.writing(f"{hidden_folder(run_id)}/{name}") as out:
        out.write(b"".join(b'{"value":%d}\n' % number for number in numbers))
    return name, len(numbers), out.size, "numbers", out.crc32
