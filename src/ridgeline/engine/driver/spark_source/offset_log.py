"""Makes Spark's log of a query's offsets say at each start what our last commit says.

Spark does not sync its log, and it can be lost or restored without our journal. A window's commit holds
the end offsets of its sources as Spark logged them (`SourceOffsets`). What is not as the commit says is
written again, so no row is skipped or read twice. What only Spark has, such as its lists of files, is
compared. What Spark has planned beyond the last commit is removed, and planned again.

Spark's folder holds `metadata`, `offsets/<window>` (a version, a line of settings, one line per source),
`commits/<window>`, and `sources/<number>/`. There the file source lists the files that it has seen, and other
sources keep the offset at which they began.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence

import pyarrow.fs

from ridgeline.api.errors import CheckpointError, RidgelineError
from ridgeline.api.support.files import resolve
from ridgeline.api.support.masking import mask_text
from ridgeline.api.support.sealed import checksum, seal, unseal
from ridgeline.engine.driver.checkpoint.manifest import Manifest, SourceOffsets
from ridgeline.engine.driver.checkpoint.run_description import read_if_there
from ridgeline.engine.files.storage import DriverStorage, explained

FOLDER = "spark"
_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'
_HEAD_LINES = 2  # version and settings
NO_OFFSET = "-"
"""Spark's text for a source that has had nothing yet."""
_BEGIN = "begun"
"""The note of the offsets at which sources began, until the first commit has them."""
_NUMBERED = re.compile(r"\d+(\.compact)?")
_RESTORE = "restore the whole checkpoint folder from one copy, or give another `--checkpoint`"


class SparkLog:
    """The log of one query over `sources`, the operators' names in its order."""

    def __init__(self, storage: DriverStorage, sources: Sequence[str]) -> None:
        self._storage = storage
        self._sources = list(sources)
        self._is_stateless = False
        """A window of this run has shown that no `transform` keeps a state."""
        self._last: SourceOffsets | None = None

    @property
    def last(self) -> SourceOffsets | None:
        """Where the last micro-batch ends whose rows are in windows."""
        return self._last

    def check(self, last: Manifest | None) -> None:
        """Before the query starts: make its log say what the last commit says.

        Raises CheckpointError where rows would be skipped or read twice.
        """
        with explained(self._storage.uri):
            self._refuse_state()
            planned, done = self._newest("offsets"), self._newest("commits")
            known = self._comparable(last) if last else None
            committed = known.batch if known else -1
            if done > committed or planned > committed + 1:
                newest = f"the last commit is of micro-batch {committed}" if last else "nothing is committed"
                found = f"Spark's log `{self._where()}` is at micro-batch {max(done, planned)}, but {newest}"
                raise CheckpointError(f"{found}; {_RESTORE}")
            if last is None or known is None:
                self._restart_log()
                return
            self._last = known
            self._put_files(known)
            self._drop_planned(known)
            self._put_entries(known)

    def check_back(self, known: SourceOffsets, what: str) -> None:
        """Before a rewind: check that sources can begin again where a window with these offsets ended.

        `what`: the rewind, for the error. Raises CheckpointError if they cannot.
        """
        with explained(self._storage.uri):
            for name, wanted in known.files.items():
                data = self._read(f"sources/{name}")
                if (data is None or checksum(name, data) != wanted) and name not in known.texts:
                    log = self._where(f"sources/{name}")
                    why = f"Spark has merged its list `{log}` of files that were read"
                    raise CheckpointError(
                        f"{what}: {why}; rewind to a later window, or start anew with another `--checkpoint`"
                    )
            if gone := next((path for path in self._read_since(known) if not _is_there(path)), None):
                why = f"the file `{mask_text(gone)}`, which was read since, is gone"
                raise CheckpointError(f"{what}: {why}; rewind to a later window, or bring it back")

    def _read_since(self, known: SourceOffsets) -> Iterator[str]:
        """The files that sources have read after a window: they list those that there are, and no others."""
        for source, line in enumerate(_lines(known.entry)):
            number = _file_number(line)
            last = -1 if number is None else number
            for name in self._numbers(f"sources/{source}"):
                if _number_of(name) > last and (number is not None or line == NO_OFFSET):
                    for one in map(_json, (self._text(f"sources/{source}/{name}") or "").split("\n")):
                        if isinstance(one, dict) and "path" in one and one.get("batchId", last + 1) > last:
                            yield str(one["path"])

    def offsets(self, batch: int) -> SourceOffsets:
        """Where the sources of a window end that Spark is about to run.

        Raises CheckpointError if its log does not say.
        """
        with explained(self._storage.uri):
            entry, metadata = self._text(f"offsets/{batch}"), self._text("metadata")
            if entry is None or metadata is None:
                what = "metadata" if metadata is None else f"offsets/{batch}"
                raise CheckpointError(
                    f"Spark's log `{self._where(what)}` of a window that is running is gone; {_RESTORE}"
                )
            files, texts = self._source_files(_lines(entry))
            if self._last is None:
                self._remove(_BEGIN)
                self._storage.write(f"{FOLDER}/{_BEGIN}", seal(_BEGIN, {"format": 1, "texts": texts}))
            elif not self._is_stateless:
                self._refuse_state()
                self._is_stateless = True
            self._last = SourceOffsets(self._sources, entry, metadata, files, texts, batch)
            return self._last

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
            raise CheckpointError(f"checkpoint folder `{self._storage.uri}`: {what}: {why}; {remedy}")
        return last.offsets

    def _put_files(self, known: SourceOffsets) -> None:
        """Have `metadata` and the files of `sources` as the commit says.

        Raises CheckpointError for a file that differs, and whose text the commit does not hold.
        """
        self._put("metadata", known.metadata)
        for name, wanted in known.files.items():
            data = self._read(f"sources/{name}")
            if data is not None and checksum(name, data) == wanted:
                continue
            if name not in known.texts:
                what = "missing" if data is None else "damaged, or another one"
                why = "it says which files were read"
                raise CheckpointError(
                    f"Spark's log `{self._where(f'sources/{name}')}` is {what}, and {why}; {_RESTORE}"
                )
            self._put(f"sources/{name}", known.texts[name])

    def _put_entries(self, known: SourceOffsets) -> None:
        """Have the last micro-batch in `offsets` as the commit says, and in `commits`: it is done."""
        batch = known.batch
        self._put(f"offsets/{batch}", known.entry)
        if batch:
            # Spark wants to know where the last one began, and reads nothing of it once that is done.
            self._put(f"offsets/{batch - 1}", known.entry)
        self._put(f"commits/{batch}", _COMMIT)

    def _refuse_state(self) -> None:
        """Raise CheckpointError if Spark keeps a state of a `transform`, which no commit would hold."""
        if self._storage.names(f"{FOLDER}/state/0/_metadata"):
            why = "a `transform` keeps a state in Spark, which no commit of a window holds"
            remedy = "keep it in an operator behind the source, and start anew with another `--checkpoint`"
            raise CheckpointError(f"`{self._where('state')}`: {why}; {remedy}")

    # What Spark has planned beyond the last commit ----------------------------------------------------------

    def _drop_planned(self, known: SourceOffsets) -> None:
        """Remove what Spark has planned beyond the last commit: it may not be as Spark wrote it.

        Spark plans that window again. Nothing of it was seen by anybody.
        """
        later = [name for name in self._numbers("offsets") if int(name) > known.batch]
        self._delete("offsets", later)
        for source, line in enumerate(_lines(known.entry)):
            last = _file_number(line)
            if last is None and line != NO_OFFSET:
                continue
            names = self._numbers(f"sources/{source}")
            self._delete(
                f"sources/{source}",
                [
                    name
                    for name in names
                    if f"{source}/{name}" not in known.files and (last is None or _number_of(name) > last)
                ],
            )

    def _restart_log(self) -> None:
        """Nothing is committed: remove what Spark has planned, but for the offsets at which sources began.

        Where these were noted, they are written again if they are damaged.
        """
        noted = None
        with contextlib.suppress(CheckpointError, LookupError):
            if (data := self._read(_BEGIN)) is not None:
                noted = unseal(_BEGIN, data, _BEGIN, 1)["texts"]
        for folder in ("offsets", "commits"):
            self._delete(folder, self._numbers(folder))
        self._remove("metadata")
        for source in range(len(self._sources)):
            for name in self._numbers(f"sources/{source}"):
                begun = noted is None and _is_begin(self._read(f"sources/{source}/{name}") or b"")
                if not begun and f"{source}/{name}" not in (noted or {}):
                    self._remove(f"sources/{source}/{name}")
        for name, text in (noted or {}).items():
            self._put(f"sources/{name}", text)

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
                            texts[name] = data.decode()
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
            raise CheckpointError(f"{log} of a window that is running is gone; {_RESTORE}")
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
        return max(map(_number_of, self._numbers(folder)), default=-1)

    def _numbers(self, folder: str) -> list[str]:
        """The names in a folder that are numbers, also those of compacted lists."""
        return [name for name in self._storage.names(f"{FOLDER}/{folder}") if _NUMBERED.fullmatch(name)]

    def _delete(self, folder: str, names: Sequence[str]) -> None:
        for name in names:
            self._remove(f"{folder}/{name}")

    def _read(self, name: str) -> bytes | None:
        return read_if_there(self._storage, f"{FOLDER}/{name}")

    def _text(self, name: str) -> str | None:
        data = self._read(name)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            return None

    def _put(self, name: str, text: str) -> None:
        """Have a file with this text."""
        if self._read(name) != text.encode():
            self._remove(name)
            self._storage.write(f"{FOLDER}/{name}", text.encode())

    def _remove(self, name: str) -> None:
        folder, _, last = f"{FOLDER}/{name}".rpartition("/")
        # with Hadoop's checksum, where it keeps one
        self._storage.delete([f"{folder}/{last}", f"{folder}/.{last}.crc"])

    def _where(self, name: str = "") -> str:
        return f"{self._storage.uri}/{FOLDER}/{name}".rstrip("/")


def _lines(entry: str) -> list[str]:
    """The sources' offsets in an entry of the log."""
    return entry.split("\n")[_HEAD_LINES:]


def _file_number(line: str) -> int | None:
    """The number in a file source's offset; None for any other."""
    offset = _json(line)
    number = offset.get("logOffset") if isinstance(offset, dict) else None
    return number if isinstance(number, int) else None


def _is_there(path: str) -> bool:
    """Whether a file is there that Spark has read; also if its store does not answer, or only to Spark."""
    with contextlib.suppress(OSError, RidgelineError):
        files, place = resolve(path)
        found: bool = files.get_file_info(place).type != pyarrow.fs.FileType.NotFound
        return found
    return True


def _number_of(name: str) -> int:
    return int(name.removesuffix(".compact"))


def _is_begin(data: bytes) -> bool:
    """Whether this is the offset at which a source began, and no list of files."""
    try:
        version, _, body = data.removeprefix(b"\0").decode().partition("\n")
    except UnicodeDecodeError:
        return False
    offset = _json(body)
    return (
        version.startswith("v") and offset is not None and not (isinstance(offset, dict) and "path" in offset)
    )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
