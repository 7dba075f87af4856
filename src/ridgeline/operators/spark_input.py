"""Read any source of Structured Streaming."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.duration import duration_faults, parse_duration
from ridgeline.api.errors import RidgelineError, SchemaError, did_you_mean
from ridgeline.api.operator import SparkSource
from ridgeline.api.schema import Schema
from ridgeline.api.schema_types import SchemaType
from ridgeline.operators._spark_types import loses_nothing, spark_type, what_spark_says

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
else:
    DataFrame = Any  # the type of a property is read at run time, also where there is no Spark

T = TypeVar("T", default=Any)
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Sources that need a schema."""
TEXT_FORMATS = frozenset({"csv", "json", "xml"})
"""Those of them in which numbers are texts, of which Spark makes the nearest value of a type.

What does not fit becomes a row of null, if they are not told otherwise.
"""


class SparkInput(SparkSource[T]):
    """Read a Spark source: Kafka, files, Delta, rate, every format of `spark.readStream.format(format)`.

    `options` go to the reader. `schema` is the type of the tuples. `transform` takes the source's DataFrame
    and returns another one with the columns of `schema`, before Python sees a row: filters, projections,
    parsing. It must be stateless (no aggregation, no watermark). Columns are taken by name and cast to the
    schema where no value changes; other columns are dropped. A null where the schema does not allow None ends
    the application.

    CSV, JSON and XML that do not fit the schema end the application: the option `mode` is `FAILFAST` where it
    is not given. With `PERMISSIVE`, Spark's own default, they become rows of None; `DROPMALFORMED` leaves
    them out. To keep them apart, give `PERMISSIVE` and `columnNameOfCorruptRecord`, and have that column in
    `source_schema` and `schema`. Times without a zone are UTC.

    File sources (CSV, JSON, Parquet, ORC, text, ...) are read with `source_schema`, a type like `schema` or
    Spark's DDL; default: `schema`. `timestamp` names the column that holds the records' times, a `datetime`.

    `lateness` ("5s", or seconds) promises that no record is older by more than the newest of all those in
    earlier micro-batches. Watermarks follow from it. Spark deals each micro-batch to the partitions anew, and
    one may get nothing for long. A partition without a record for `idle_after` holds no watermark up.

    Offsets are logged before a window runs, so a window that failed or was cut off is replayed with the same
    rows.

    Example:
        In process there is no Spark: `inputs` gives the tuples in place of the source.

        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SparkInput
        >>> from ridgeline.testing import CollectorSink, run_local
        >>> class Order(NamedTuple):
        ...     value: bytes
        >>> app = Application("orders")
        >>> options = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders"}
        >>> orders = app.add_operator("orders", SparkInput(format="kafka", options=options, schema=Order))
        >>> sink = app.add_operator("sink", CollectorSink(Order))
        >>> app.add_stream("orders", orders.output, sink.input)
        >>> run_local(app, inputs={"orders": [(b"42",), (b"7",)]}).collected("sink")
        [Order(value=b'42'), Order(value=b'7')]
    """

    format: str = Field(min_length=1)
    options: dict[str, bool | int | float | str] = Field(default={})
    schema: SchemaType[T] = Field(kw_only=True)
    transform: Callable[[DataFrame], DataFrame] | None = None
    source_schema: SchemaType[Any] | str | None = None
    timestamp: str | None = None
    lateness: float | str | None = None
    idle_after: float | str | None = None

    def __post_init__(self) -> None:
        """Give the output port its schema."""
        if "schema" in vars(self):
            self.declare_schema("output", self.schema)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse schemas with columns for which Spark has no type."""
        faults = duration_faults(self, "lateness", "idle_after")
        if self.lateness is not None and self.timestamp is None:
            faults.append(
                ("lateness", self.lateness, "needs `timestamp`, the column with the records' times")
            )
        for name in ("schema", "source_schema"):
            value = getattr(self, name)
            if value is None or (name == "source_schema" and isinstance(value, str)):
                continue
            try:
                schema = Schema(value)
            except SchemaError as error:
                if name == "source_schema":
                    faults.append((name, value, str(error)))
                continue  # a faulty `schema` is reported with the port
            if schema.pickled:
                faults.append(
                    (name, value, "must have columns: a NamedTuple, a dataclass or a `pyarrow.Schema`")
                )
            without = [field for field in schema.arrow if not spark_type(field.type)]
            faults += [
                (name, f"{field.name}: {field.type}", "is a column that Spark has no type for")
                for field in without
            ]
        return faults

    def timestamp_of(self, port: str) -> str | None:
        """The column that `timestamp` names."""
        return self.timestamp

    def lateness_of(self, port: str) -> float | None:
        """The `lateness` in seconds."""
        return None if self.lateness is None else parse_duration(self.lateness)

    def idle_seconds(self) -> float | None:
        """`idle_after` in seconds."""
        return None if self.idle_after is None else parse_duration(self.idle_after)

    def order_note(self) -> str | None:
        """Files of one micro-batch are read side by side."""
        given = {name.lower(): str(value) for name, value in self.options.items()}
        if self.format.lower() not in FILE_FORMATS or given.get("maxfilespertrigger") == "1":
            return None
        return (
            "rows of several files in one micro-batch come in no order; "
            'option `"maxFilesPerTrigger": 1` reads the files one after the other, the oldest first'
        )

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame with the columns of `schema`.

        Raises RidgelineError for a format that Spark does not have, options that it refuses, columns that are
        missing or of another type.
        """
        reader = spark.readStream.format(self.format).options(**self._strict, **self.options)
        if self.source_schema is not None or self.format.lower() in FILE_FORMATS:
            texts = self.source_schema is None and self.format.lower() in TEXT_FORMATS
            reader = reader.schema(
                _ddl(self.schema if self.source_schema is None else self.source_schema, texts=texts)
            )
        remedy = (
            "check `format` and `options`, and that its package is there (`--conf spark.jars.packages=...`)"
        )
        frame = self._try(f"cannot be read; {remedy}", reader.load)
        if self.transform is not None:
            transform = self.transform
            frame = self._try("cannot be transformed; check `transform`", lambda: transform(frame))
            if not hasattr(frame, "isStreaming"):
                message = (
                    f"`transform` of source `{self.format}` must return a DataFrame; "
                    f"got {type(frame).__name__}"
                )
                raise RidgelineError(message)
        return self._select(frame)

    @property
    def _strict(self) -> dict[str, str]:
        """Options that are not given: what does not fit ends the application, times are UTC."""
        if self.format.lower() not in TEXT_FORMATS:
            return {}
        given = {name.lower() for name in self.options}
        defaults = {} if "columnnameofcorruptrecord" in given else {"mode": "FAILFAST"}
        return {
            name: value
            for name, value in {**defaults, "timeZone": "UTC"}.items()
            if name.lower() not in given
        }

    def _try(self, what: str, function: Callable[[], object]) -> Any:
        """Call `function`; turn an error of Spark into a RidgelineError that names the source."""
        try:
            return function()
        except Exception as error:
            if (reason := what_spark_says(error)) is None:
                raise
            message = f"Spark source `{self.format}` {what}; Spark says: {reason}"
            raise RidgelineError(message) from error

    def _select(self, frame: DataFrame) -> DataFrame:
        """Select the columns of `schema`, in its order, cast to its types. Raises RidgelineError."""
        found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        columns = []
        for field in Schema(self.schema).arrow:
            wanted = str(spark_type(field.type))
            if field.name not in found:
                message = (
                    f"Spark source `{self.format}` has no column `{field.name}`; "
                    f"{did_you_mean(field.name, found)} "
                    "Name the fields of `schema` so, or select and rename columns in `transform`"
                )
                raise RidgelineError(message)
            if (found[field.name], wanted) == ("double", "float"):
                wanted = "double"  # the port refuses values that would change; Spark would not
            if not loses_nothing(found[field.name], wanted):
                message = (
                    f"column `{field.name}` of Spark source `{self.format}` is {found[field.name]}; "
                    f"`schema` wants {wanted}; "
                    f"cast it in `transform`, for example `CAST({field.name} AS {wanted.upper()})`, "
                    "or change `schema`"
                )
                raise RidgelineError(message)
            column = frame[f"`{field.name}`"]
            columns.append(column if found[field.name] == wanted else column.cast(wanted).alias(field.name))
        return frame.select(*columns)


def _ddl(schema: Any, *, texts: bool = False) -> str:
    """A schema as Spark's DDL. `texts`: floats of 32 bits are read as 64, so that the port sees them."""
    if isinstance(schema, str):
        return schema
    types = {field.name: spark_type(field.type) for field in Schema(schema).arrow}
    return ", ".join(
        f"`{name}` {'double' if texts and kind == 'float' else kind}" for name, kind in types.items()
    )
