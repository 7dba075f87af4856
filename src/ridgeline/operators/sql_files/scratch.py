"""Scratch databases of outputs that write to a database in a file: another file beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeline.connect.scratch import SCRATCH, ScratchPlace
from ridgeline.operators._scratch import KEY, POISON, copied, left_out

if TYPE_CHECKING:
    from ridgeline.operators.sql_files.table_output import TableOutput

_TABLE = "rows"
_ENDING = ".db"
Query = Callable[[Path, str], list[tuple[Any, ...]]]
"""Runs a statement on a file, and returns its rows; none if the table is missing."""


class ScratchFile(ScratchPlace):
    """A database beside the user's. `checked`: its table refuses a row with a value of 1,000 or more."""

    why_no_relay = "a file has no server to cut off"

    def __init__(self, output: TableOutput, name: str, query: Query, *, checked: bool) -> None:
        self._output, self._query, self._checked = output, query, checked
        self._path = Path(output.path).with_name(f"{name}{_ENDING}")
        self.upserts = bool(output.key)
        self.notes = (
            f"written to a database of its own beside `{output.path}`",
            *left_out(output, {"delete": None}),
        )

    def output(self, relay: int | None = None) -> TableOutput:
        """One that writes to the file."""
        changed = {"path": self._path, "table": _TABLE, "create": True, "delete": None}
        made: TableOutput = copied(self._output, key=KEY if self.upserts else None, **changed)
        return made

    def rows(self) -> Sequence[tuple[Any, ...]]:
        """The rows of the table."""
        if not self._path.exists():
            return []
        return self._query(self._path, f"select id, key, text, value from {_TABLE}")  # noqa: S608  our own

    def poison(self) -> tuple[Any, ...] | None:
        """A row that the table refuses, made with a condition for it if it is not there."""
        if not self._checked:
            return None
        columns = "id int, key int, text text, value real check (value < 1000)"
        end = ", primary key (key)" if self.upserts else ""
        self._query(self._path, f"create table if not exists {_TABLE} ({columns}{end})")
        return POISON

    def remove(self) -> None:
        """Remove the file, and what lies beside it."""
        remove_files(self._path, [self._path.stem])


def files_left(path: Path) -> list[str]:
    """The names of scratch databases beside a file."""
    return sorted({found.name.partition(".")[0] for found in path.parent.glob(f"{SCRATCH}*{_ENDING}*")})


def remove_files(path: Path, names: Sequence[str]) -> None:
    """Remove scratch databases beside a file, by their names. Raises OSError."""
    for name in names:
        for found in path.parent.glob(f"{name}{_ENDING}*"):
            found.unlink(missing_ok=True)
