"""Compares Spark's log of a query's offsets with our commits, and repairs it.

Spark does not sync its log, and it can be lost or restored without our journal. A window's commit holds
the end offsets of its sources as Spark logged them (`SourceOffsets`). So a log that is behind the commits is
found before a row is skipped. It is written again where the commit holds all that is needed.

Spark's folder holds `metadata`, `offsets/<window>` (a version, a line of settings, one line per source),
`commits/<window>`, and `sources/<number>/`. There the file source lists the files that it has seen, and other
sources keep the offset at which they began.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence

from ridgeline.api.errors import CheckpointError
from ridgeline.engine.driver.manifest import Manifest, SourceOffsets
from ridgeline.engine.driver.offsets import goes_back
from ridgeline.engine.state.sealed import checksum
from ridgeline.engine.state.storage import DriverStorage, explain

FOLDER = "spark"
_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
_SMALL_BYTES = 1 << 16
_HEAD_LINES = 2  # version and settings
_RESTORE = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"


class SparkLog:
    """The log of one query over `sources`, the operators' names in its order.

    `warn` gets a text for each file that was written again.
    """

    def __init__(self, storage: DriverStorage, sources: Sequence[str], warn: Callable[[str], None]) -> None:
        self._storage = storage
        self._sources = list(sources)
        self._warn = warn
        self._window = -1
        self._last: SourceOffsets | None = None

    def check(self, last: Manifest | None) -> None:
        """Before the query starts: compare its log with the last commit, and mend what can be mended.

        Raises CheckpointError where rows would be skipped or read twice.
        """
        with self._explained():
            planned, done = self._newest("offsets"), self._newest("commits")
            committed = last.window_id if last else -1
            if done > committed or planned > committed + 1:
                newest = f"the last commit is that of window {committed}" if last else "nothing is committed"
                found = f"Spark's log `{self._where()}` is at window {max(done, planned)}, but {newest}"
                msg = f"{found}; {_RESTORE}"
                raise CheckpointError(msg)
            if last is None:
                return
            self._window, self._last = committed, self._comparable(last)
            self._mend_files(self._last)
            self._mend_entries(self._last, planned, done)

    def offsets(self, window_id: int) -> SourceOffsets:
        """Where the sources of a window end that Spark is about to run.

        Raises CheckpointError if its log does not say.
        """
        with self._explained():
            entry, metadata = self._text(f"offsets/{window_id}"), self._text("metadata")
            if entry is None or metadata is None:
                what = "metadata" if metadata is None else f"offsets/{window_id}"
                msg = f"Spark's log `{self._where(what)}` of a window that is running is gone; {_RESTORE}"
                raise CheckpointError(msg)
            files, texts = self._source_files(_lines(entry))
            self._last = SourceOffsets(self._sources, entry, metadata, files, texts)
            self._window = window_id
            return self._last

    def check_repeated(self, window_id: int) -> None:
        """Spark runs a window again that is committed.

        Raises CheckpointError unless it is the last one, with the same offsets.
        """
        with self._explained():
            if (
                self._last is None
                or window_id != self._window
                or self._text(f"offsets/{window_id}") != self._last.entry
            ):
                log = f"Spark's log `{self._where()}`"
                found = f"repeats window {window_id} with other offsets than those of its commit"
                msg = f"{log} {found}, so rows would be passed over; {_RESTORE}"
                raise CheckpointError(msg)

    # At the start -------------------------------------------------------------------------------------------

    def _comparable(self, last: Manifest) -> SourceOffsets:
        """The offsets of the last commit. Raises CheckpointError if they are not of this query's sources."""
        found = ", ".join(f"`{name}`" for name in last.offsets.sources) if last.offsets else "none"
        if last.offsets is None or list(last.offsets.sources) != self._sources:
            wanted = ", ".join(f"`{name}`" for name in self._sources)
            why = "offsets are kept for the sources in their order"
            why += ", and windows that are committed are passed over"
            remedy = "run it with the same Spark sources in the same order, or give another `--checkpoint`"
            what = f"its windows had the Spark sources {found}, this application has {wanted}"
            msg = f"checkpoint folder `{self._storage.uri}`: {what}: {why}; {remedy}"
            raise CheckpointError(msg)
        return last.offsets

    def _mend_files(self, known: SourceOffsets) -> None:
        """Write `metadata` and the files of `sources` again where they are not as the commit says.

        Raises CheckpointError for a file whose text the commit does not hold.
        """
        if self._text("metadata") != known.metadata:
            self._rewrite("metadata", known.metadata)
        for name, wanted in known.files.items():
            data = self._read(f"sources/{name}")
            if data is not None and checksum(name, data) == wanted:
                continue
            if name not in known.texts:
                what = "missing" if data is None else "damaged, or another one"
                why = "it says which files were read"
                msg = f"Spark's log `{self._where(f'sources/{name}')}` is {what}, and {why}; {_RESTORE}"
                raise CheckpointError(msg)
            self._rewrite(f"sources/{name}", known.texts[name])

    def _mend_entries(self, known: SourceOffsets, planned: int, done: int) -> None:
        """Write the last window's entries in `offsets` and `commits` again where they are lost or differ.

        `planned` and `done`: the newest windows in `offsets` and in `commits`. A planned window that cannot
        be right is removed: Spark plans it again. Raises CheckpointError where Spark's own state is lost.
        """
        window_id = self._window
        if planned > window_id and not self._is_sound(planned, known):
            self._remove(f"offsets/{planned}")
            log = f"Spark's log `{self._where(f'offsets/{planned}')}`"
            self._warn(f"{log} cannot be right; the window, not committed yet, is planned anew")
        if self._text(f"offsets/{window_id}") != known.entry:
            self._rewrite(f"offsets/{window_id}", known.entry)
        readable = done < 0 or _is_commit(self._text(f"commits/{done}"))
        startable = (
            planned > window_id or window_id == 0 or self._text(f"offsets/{window_id - 1}") is not None
        )
        if readable and startable:
            return
        if (
            not startable
        ):  # Spark wants to know where the last window began; nobody reads it once that is done
            self._rewrite(f"offsets/{window_id - 1}", known.entry)
        if readable and done == window_id:
            return
        if self._storage.names(f"{FOLDER}/state/0/_metadata"):
            log = f"Spark's log `{self._where(f'commits/{window_id}')}`"
            why = "the state of a `transform` depends on it"
            msg = f"{log} is missing or damaged, and {why}; {_RESTORE}"
            raise CheckpointError(msg)
        self._rewrite(f"commits/{window_id}", _COMMIT)

    def _is_sound(self, window_id: int, known: SourceOffsets) -> bool:
        """Whether a window that was planned and not committed may begin where the last commit ended."""
        text = self._text(f"offsets/{window_id}")
        before, after = _lines(known.entry), _lines(text or "")
        if text is None or len(before) != len(after) or not isinstance(_json(text.split("\n")[1]), dict):
            return False
        for number, (start, end) in enumerate(zip(before, after, strict=True)):
            first, last = _file_number(start), _file_number(end)
            if goes_back(end, start) or (first is not None and last is None):
                return False
            if last is not None and any(
                self._numbered(number, one) is None
                for one in range(0 if first is None else first + 1, last + 1)
            ):
                return False
        return True

    # The log's files ----------------------------------------------------------------------------------------

    def _source_files(self, lines: Sequence[str]) -> tuple[dict[str, int], dict[str, str]]:
        """The files in `sources` that the next window depends on: checksums, and texts of small ones."""
        known = self._last
        files = dict(known.files) if known else {}
        texts = dict(known.texts) if known else {}
        before = _lines(known.entry) if known else []
        for number, line in enumerate(lines):
            last = _file_number(line)
            if last is None:
                if known is None:
                    for name, data in self._begun(number):
                        files[name] = checksum(name, data)
                        with contextlib.suppress(UnicodeDecodeError):
                            texts[name] = data.decode() if len(data) <= _SMALL_BYTES else texts[name]
                continue
            first = _file_number(before[number]) if number < len(before) else None
            for one in range(0 if first is None else first + 1, last + 1):
                self._note(number, one, files)
        return files, texts

    def _note(self, source: int, number: int, files: dict[str, int]) -> None:
        """Add a file source's numbered file; a `.compact` one replaces those that it holds."""
        found = self._numbered(source, number)
        if found is None:
            log = f"Spark's log `{self._where(f'sources/{source}/{number}')}`"
            msg = f"{log} of a window that is running is gone; {_RESTORE}"
            raise CheckpointError(msg)
        name, data = found
        self._storage.settle([f"{FOLDER}/sources/{name}"])
        if name.endswith(".compact"):
            for other in [other for other in files if other.startswith(f"{source}/")]:
                del files[other]
        files[name] = checksum(name, data)

    def _numbered(self, source: int, number: int) -> tuple[str, bytes] | None:
        for name in (f"{source}/{number}", f"{source}/{number}.compact"):
            data = self._read(f"sources/{name}")
            if data is not None:
                return name, data
        return None

    def _begun(self, source: int) -> Iterator[tuple[str, bytes]]:
        for name in self._storage.names(f"{FOLDER}/sources/{source}"):
            data = self._read(f"sources/{source}/{name}")
            if data is not None:
                yield f"{source}/{name}", data

    def _newest(self, folder: str) -> int:
        return max(
            (int(name) for name in self._storage.names(f"{FOLDER}/{folder}") if name.isdecimal()), default=-1
        )

    def _read(self, name: str) -> bytes | None:
        try:
            return self._storage.read(f"{FOLDER}/{name}")
        except FileNotFoundError:
            return None

    def _text(self, name: str) -> str | None:
        data = self._read(name)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None

    def _rewrite(self, name: str, text: str) -> None:
        self._remove(name)
        self._storage.write(f"{FOLDER}/{name}", text.encode())
        log = f"Spark's log `{self._where(name)}`"
        remedy = "it was written again from the last commit, nothing is lost"
        self._warn(f"{log} was missing or damaged; {remedy}")

    def _remove(self, name: str) -> None:
        folder, _, last = f"{FOLDER}/{name}".rpartition("/")
        self._storage.delete(
            [f"{folder}/{last}", f"{folder}/.{last}.crc"]
        )  # Hadoop's checksum, where it keeps one

    def _where(self, name: str = "") -> str:
        return f"{self._storage.uri}/{FOLDER}/{name}".rstrip("/")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CheckpointError(explain(self._storage.uri, error)) from error


def _lines(entry: str) -> list[str]:
    """The sources' offsets in an entry of the log."""
    return entry.split("\n")[_HEAD_LINES:]


def _file_number(line: str) -> int | None:
    """The number in a file source's offset; None for any other."""
    offset = _json(line)
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    return number if isinstance(number, int) else None


def _is_commit(text: str | None) -> bool:
    version, _, body = (text or "").partition("\n")
    return version.startswith("v") and isinstance(_json(body), dict)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
