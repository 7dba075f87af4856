"""Read a Delta table as it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.columns.schema_types import SchemaType
from ridgeline.connect._enumerating import Settings, begin_of
from ridgeline.connect.partitioned_input import PartitionedInput
from ridgeline.connect.secrets import Secret
from ridgeline.connect.source import Source
from ridgeline.operators.lake.delta_log import DeltaLog, file_system
from ridgeline.operators.lake.lake_reader import LakeReader
from ridgeline.operators.lake.lake_source import LakeSource
from ridgeline.operators.lake.storage import Store, delta_faults, table_uri

T = TypeVar("T", default=Any)


class DeltaInput(PartitionedInput[T]):
    """Emit the rows of a Delta table, and those that are added, each once.

    `path`: a folder, or a URI such as `s3://shop/totals`. `storage`: options of its store as deltalake has
    them; secrets better as `env:NAME` or `file:PATH`. `schema`: the rows' type, columns by name; the table
    may have more.

    `begin`: `"earliest"` reads all rows that are in the table when a fresh run starts, then those that later
    versions add. `"latest"` reads the latter only. `{"version": 7}` or a time reads what version 7, or the
    first version that is not older, and later ones have added. `until="end"` ends with the newest version of
    the start. While there is no table it is waited for.

    Versions are read in their order, the files of one by `partitions` at once. A version that only compacts
    files is passed over, since it changes no row. One that removed or rewrote rows (delete, update, merge,
    overwrite) ends the run; with `pass_over_changes` it is passed over, with a warning.

    A column that an older file does not have is null, if `schema` lets it be. Files that were vacuumed before
    they were read end the run. Tables with mapped columns are refused, and files with deletion vectors.

    Partitions: each file is read by one.

    Example:
        >>> import tempfile
        >>> from typing import NamedTuple
        >>> import pyarrow as pa
        >>> from deltalake import write_deltalake
        >>> from ridgeline import Application
        >>> from ridgeline.operators.lake import DeltaInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> folder = tempfile.TemporaryDirectory()
        >>> write_deltalake(folder.name, pa.table({"symbol": ["IBM"], "price": [12.3]}))
        >>> app = Application("prices")
        >>> prices = app.add_operator("prices", DeltaInput(folder.name, Price, until="end"))
        >>> sink = app.add_operator("sink", CollectorSink(Price))
        >>> app.add_stream("prices", prices.output, sink.input)
        >>> run_local(app).collected("sink")
        [Price(symbol='IBM', price=12.3)]
        >>> folder.cleanup()
    """

    waits_for_unread: ClassVar[bool] = False
    needs_until: ClassVar[bool] = True

    path: str | Path
    schema: SchemaType[T]
    pass_over_changes: bool = Field(default=False, kw_only=True)
    storage: dict[str, Secret] = Field(default={}, kw_only=True)
    discover_every: float | str = Field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "schema" in vars(self):
            self.declare_schema("output", self.schema)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a `begin` that is no place in a table, and a host without deltalake."""
        faults = super().property_faults() + delta_faults(str(self.path), self.storage)
        if isinstance(self.begin, dict) and not (
            self.begin.keys() == {"version"} and isinstance(self.begin["version"], int)
        ):
            faults.append(("begin", self.begin, 'must be "earliest", "latest", {"version": 7} or a time'))
        return faults

    def settle_properties(self) -> None:
        """Make a relative path absolute."""
        super().settle_properties()
        self.path = table_uri(str(self.path))

    def _window_settings(self) -> Settings:
        return super()._window_settings()._replace(begin="earliest", until=None)

    def source(self) -> Source:
        """The half that reads the log."""
        log = DeltaLog(Store(str(self.path), self.storage), passes=self.pass_over_changes)
        return LakeSource(log, begin_of(self.begin), self.until)

    def reader(self) -> LakeReader:
        """The half that reads files."""
        store = Store(str(self.path), self.storage)
        return LakeReader(lambda: file_system(store))
