"""Waiting for a store which does not answer: an operation is tried again until it succeeds.

Only errors of a network, of an overloaded store or of a full disk are tried again. All others are raised at
once, such as a refused key. Each operation may be done twice. Files are written once under their names, and
`journal.create` takes one that holds its own data for created.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, TypeVar

from ridgeline.api.clock import Clock, SystemClock
from ridgeline.api.support.files import (
    STORE_SECONDS,
    StoreAwayError,
    UnavailableError,
    is_local,
    is_unavailable,
    may_recover,
    store_pause,
    unavailable,
)
from ridgeline.api.support.masking import mask_text
from ridgeline.engine.files.storage import (
    AppendedFile,
    Buffer,
    DriverStorage,
    LocalStorage,
    Storage,
    open_storage,
)

_Result = TypeVar("_Result")
STARTING_SECONDS = 10.0
"""How long a driver waits at its start: a store that does not answer then may be a wrong address."""
ENDING_SECONDS = 10.0
"""How long a run that ends still waits."""
_NAMES_AT_ONCE = 1000


class Trouble(NamedTuple):
    """An operation that waits: since when (monotonic), how often it was tried, and the last error.

    `place`: what it waits for. `output`: the operator whose files they are, "" for the checkpoint.
    """

    since: float
    tries: int
    error: str
    place: str
    output: str = ""


class Patience:
    """Tries operations again, each for up to `limit_seconds`. Then it raises UnavailableError."""

    uri: str

    def _begin(self, clock: Clock | None, limit_seconds: float) -> None:
        """Take part in an object's making."""
        self._clock = clock or SystemClock()
        self._limit_seconds = limit_seconds
        self._asked: dict[int, Trouble] = {}
        """The operations under way."""
        self._numbers = itertools.count()
        self._ending: Callable[[], bool] | None = None
        self._ends_at: float | None = None
        self.gave_up = False
        """Whether an operation has failed since the store did not answer for too long."""

    def be_patient(self, ending: Callable[[], bool]) -> None:
        """Wait without a limit from now on; some seconds only once `ending` says that the run is to end."""
        self._ending = ending

    def hurry(self) -> None:
        """Wait some seconds more only: the run is over."""
        if self._ends_at is None:
            self._ends_at = self._clock.monotonic() + ENDING_SECONDS

    @property
    def ending(self) -> bool:
        """Whether the run is to end, so that nothing is waited for without a limit. Any thread may ask."""
        return self._ending is not None and self._ending()

    def _passes(self, error: Exception) -> bool:
        """Whether a later try may succeed after an error."""
        return isinstance(error, OSError) and is_unavailable(error)

    def trouble(self, silent_seconds: float) -> Trouble | None:
        """The operation that has waited longest: it has failed, or not answered for so long. Any thread.

        None if there is none.
        """
        before = self._clock.monotonic() - silent_seconds
        waiting = [one for one in self._asked.copy().values() if one.tries or one.since <= before]
        found = min(waiting, key=lambda one: one.since, default=None)
        return found and found._replace(place=mask_text(found.place))

    def _try(
        self,
        operation: Callable[[], _Result],
        *,
        silent: bool = True,
        place: str = "",
        output: str = "",
        new: bool = False,
    ) -> _Result:
        """Do it until it succeeds. `silent`: it must answer soon, whatever its size.

        `place`, `output`: as of `Trouble`. `new`: it may never succeed, so it waits for some seconds only,
        and is no trouble.
        """
        number, tries = next(self._numbers), 0
        since = self._clock.monotonic() if silent else float("inf")
        self._asked[number] = Trouble(since, 0, "", place or self.uri, output)
        try:
            while True:
                try:
                    return operation()
                except (OSError, StoreAwayError) as error:
                    if not self._passes(error):
                        raise
                    now, tries = self._clock.monotonic(), tries + 1
                    since = min(since, now)
                    why = " ".join(mask_text(str(error)).split())
                    if isinstance(error, StoreAwayError):
                        why, place = error.why, error.place
                    if not new:
                        self._asked[number] = Trouble(since, tries, why, place or self.uri, output)
                    if not self._may_wait(now - since, new=new):
                        self.gave_up |= not new
                        if isinstance(error, StoreAwayError):
                            raise
                        raise unavailable(now - since, tries, why) from error
                self._clock.wait(store_pause(tries - 1))
        finally:
            del self._asked[number]

    def _may_wait(self, seconds: float, *, new: bool) -> bool:
        """Whether to try again, after so long."""
        if self._ending is None or new:
            return seconds < self._limit_seconds
        if self._ending():
            self.hurry()
        return self._ends_at is None or self._clock.monotonic() < self._ends_at


class PatientStorage(Patience, Storage):
    """A storage that waits for each operation."""

    def __init__(
        self, below: Storage, clock: Clock | None = None, limit_seconds: float = STORE_SECONDS
    ) -> None:
        self.uri = below.uri
        self._below = below
        self._begin(clock, limit_seconds)

    def read(self, name: str) -> bytes:
        """The whole file."""
        return self._try(lambda: self._below.read(name))

    def read_range(self, name: str, offset: int, size: int) -> bytes:
        """Some bytes of a file."""
        return self._try(lambda: self._below.read_range(name, offset, size))

    def write(self, name: str, data: bytes) -> None:
        """Write a file."""
        self._try(lambda: self._below.write(name, data))

    def write_parts(self, name: str, parts: Iterable[bytes]) -> int:
        """Write a file in parts, which there are once only: a failure is UnavailableError at once."""
        try:
            return self._below.write_parts(name, parts)
        except OSError as error:
            if not is_unavailable(error):
                raise
            raise UnavailableError(" ".join(mask_text(str(error)).split())) from error

    def map(self, name: str) -> Buffer | None:
        """As `Storage.map`."""
        return self._try(lambda: self._below.map(name))

    def copy_out(self, name: str, path: str) -> None:
        """Copy a file, from its beginning each time."""
        self._try(lambda: self._below.copy_out(name, path), silent=False)

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder."""
        return self._try(lambda: self._below.names(folder))

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, some at a time."""
        rest = iter(names)
        while some := list(itertools.islice(rest, _NAMES_AT_ONCE)):
            self._try(lambda some=some: self._below.delete(some), silent=False)  # type: ignore[misc]


class PatientDriverStorage(PatientStorage, DriverStorage):
    """The driver's storage: it waits for some seconds at the start, without a limit from `be_patient` on."""

    def __init__(self, below: DriverStorage, clock: Clock | None = None) -> None:
        super().__init__(below, clock, STARTING_SECONDS)
        self._driver = below

    def prepare(self, folders: Iterable[str]) -> None:
        """As `Storage.prepare`."""
        self._below.prepare(folders)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """As `DriverStorage.create`: False as well if an earlier try has created it."""
        return self._try(lambda: self._driver.create(name, data, settled=settled))

    def settle(self, names: Iterable[str]) -> None:
        """As `DriverStorage.settle`."""
        self._driver.settle(names)


class PatientLocalStorage(Patience, LocalStorage):
    """A folder of the local disk that waits while the disk is full, or its server is gone.

    What is written in parts, which there are once only, fails instead.
    """

    def __init__(
        self, path: str, clock: Clock | None = None, limit_seconds: float = STARTING_SECONDS
    ) -> None:
        super().__init__(path)
        self._begin(clock, limit_seconds)

    def _passes(self, error: Exception) -> bool:
        return isinstance(error, OSError) and may_recover(error)

    def write(self, name: str, data: bytes) -> None:
        """Write and sync a file."""
        self._try(partial(super().write, name, data), silent=False)

    def create(self, name: str, data: bytes, *, settled: str = "") -> bool:
        """As `LocalStorage.create`."""
        return self._try(partial(super().create, name, data, settled=settled), silent=False)

    def appended(self, name: str) -> AppendedFile:
        """As `LocalStorage.appended`."""
        file = super().appended(name)
        append = file.append
        file.append = lambda data, offset: self._try(partial(append, data, offset), silent=False)  # type: ignore[method-assign]
        return file


def open_patient(uri: str) -> Storage:
    """As `open_storage`: it waits for its store, or for room on its disk. Raises CheckpointError."""
    if is_local(uri):
        return PatientLocalStorage(uri, limit_seconds=STORE_SECONDS)
    return PatientStorage(open_storage(uri))
