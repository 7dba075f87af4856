"""Read any source of Structured Streaming; Arrow types in Spark's DDL, and the text of Spark's errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import Field
from typing_extensions import TypeVar

from ridgeline.api.columns.nulls import refuse_nulls
from ridgeline.api.columns.schema import Schema
from ridgeline.api.columns.struct_types import SchemaType
from ridgeline.api.errors import RidgelineError, SchemaError, did_you_mean
from ridgeline.api.operator import SparkSource
from ridgeline.api.support.event_time import EventTime
from ridgeline.api.support.masking import mask_text
from ridgeline.connect.datasets import Dataset, spark_datasets
from ridgeline.operators._shaped import GivenSchema
from ridgeline.operators.validate import fitting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
else:
    DataFrame = Any  # the type of a property is read at run time, also where there is no Spark

T = TypeVar("T", default=Any)
FILE_FORMATS = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
"""Sources that need a schema."""
TEXT_FORMATS = frozenset({"csv", "json", "xml"})
"""Those of them in which numbers are texts, of which Spark makes the nearest value of a type.

Rows that do not fit become null, unless `mode` says otherwise.
"""


_RECORD = "__ridgeline_record__"
"""The column with the text of a record that does not fit; null in all others."""


class SparkInput(GivenSchema, EventTime, SparkSource[T]):
    """Read a Spark source: Kafka, files, Delta, rate, every format of `spark.readStream.format(format)`.

    `options` go to the reader. `schema` is the type of the tuples. `transform` takes the source's DataFrame
    and returns another one with the columns of `schema`, before Python sees a row: filters, projections,
    parsing. It must be stateless (no aggregation, no watermark). Columns are taken by name and cast to the
    schema where no value changes; other columns are dropped. A null where the schema does not allow None ends
    the application.

    CSV, JSON and XML that do not fit the schema end the application: the option `mode` is `FAILFAST` where it
    is not given. With `on_error=SKIP` they are left out, count as errors of the window, and become dead
    letters with their text. So do rows that the port would refuse, such as a null where there may be none.
    This is not for a `transform`, which could drop such rows unseen. There give `PERMISSIVE` and
    `columnNameOfCorruptRecord`, and have that column in `source_schema` and `schema`. With `PERMISSIVE`
    alone, Spark's own default, they become rows of None. Times without a zone are UTC.

    File sources (CSV, JSON, Parquet, ORC, text, ...) are read with `source_schema`, a type like `schema` or
    Spark's DDL; default: `schema`. `timestamp` names the column that holds the records' times, a `datetime`.

    Rows of several files in one micro-batch mix, since tasks read them side by side. The option
    `"maxFilesPerTrigger": 1` reads the files one after the other; `FileInput` reads all in order.

    `lateness` ("5s", or seconds) promises that no record is older by more than the newest of all those in
    earlier micro-batches. Watermarks follow from it. Spark divides each micro-batch among the partitions, and
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

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse schemas with columns for which Spark has no type."""
        faults = super().property_faults()
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

    def datasets(self) -> list[Dataset]:
        """The topics or files, as `ridgeline.connect.datasets` names them."""
        return spark_datasets(self.format, self.options)

    def order_note(self) -> str | None:
        """Files of one micro-batch are read side by side."""
        given = {name.lower(): str(value) for name, value in self.options.items()}
        if self.format.lower() not in FILE_FORMATS or given.get("maxfilespertrigger") == "1":
            return None
        return (
            'rows of several files in one micro-batch come in no order; option `"maxFilesPerTrigger": 1` '
            "reads the files one after the other, the oldest first"
        )

    @property
    def leaves_out_records(self) -> bool:  # type: ignore[override]  # of text alone Spark says what does not fit
        """Whether `on_error=SKIP` leaves rows out."""
        return self.format.lower() in TEXT_FORMATS

    def frame(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame with the columns of `schema`.

        Raises RidgelineError for a format that Spark does not have, options that it refuses, columns that are
        missing or of another type.
        """
        return self._frame(spark, self._strict, "")

    def sifting_frame(self, spark: SparkSession) -> DataFrame:
        """As `frame`, with a column that has the text of each record that does not fit.

        Raises RidgelineError as well where such records could be dropped before they are seen.
        """
        given = {name.lower() for name in self.options} & {"mode", "columnnameofcorruptrecord"}
        if given or self.transform is not None:
            what = "`transform`" if self.transform is not None else f"the option `{min(given)}`"
            raise RidgelineError(
                f"Spark source `{self.format}` cannot leave out what does not fit (`on_error=SKIP`) and have "
                f"{what}; leave it out, or `on_error`: with `mode` PERMISSIVE and "
                "`columnNameOfCorruptRecord` rows that do not fit come with their text in that column"
            )
        options = {**self._strict, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _RECORD}
        return self._frame(spark, options, _RECORD)

    def emit_rows(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Emit the rows of a micro-batch; with `on_error=SKIP` those that fit."""
        for rows in batches:
            place = rows.schema.get_field_index(_RECORD)
            if place < 0:
                self.output.emit_batch(rows)
            else:
                self._sift(rows, place)

    def _sift(self, rows: pa.RecordBatch, place: int) -> None:
        """Emit the rows that fit, leave out the others. `place`: of the column with their texts."""
        records, rows = rows.column(place), rows.drop_columns([_RECORD])
        if records.null_count < len(records):
            for text in records.drop_null().to_pylist():
                self.context.leave_out(text, f"is no record of `schema` in `{self.format}`")
            rows = rows.filter(records.is_null())
        schema = self.output.schema

        def conformed(begin: int, end: int) -> pa.RecordBatch:
            found = schema.conform(rows.slice(begin, end - begin))
            refuse_nulls(schema, found)
            return found

        found = fitting(range(len(rows)), conformed)
        for one in found.unread:
            self.context.leave_out(str(rows.slice(one.row, 1).to_pylist()[0]), one.error)
        for batch in found.batches:
            if len(batch):
                self.output.emit_batch(batch)

    def _frame(self, spark: SparkSession, options: dict[str, str], record: str) -> DataFrame:
        """The DataFrame, read with more options. `record`: a column of text to have, too; "": none."""
        reader = spark.readStream.format(self.format).options(**options, **self.options)
        if self.source_schema is not None or self.format.lower() in FILE_FORMATS:
            texts = self.source_schema is None and self.format.lower() in TEXT_FORMATS
            ddl = _ddl(self.schema if self.source_schema is None else self.source_schema, texts=texts)
            reader = reader.schema(f"{ddl}, `{record}` string" if record else ddl)
        remedy = (
            "check `format` and `options`, and that its package is there (`--conf spark.jars.packages=...`)"
        )
        frame = self._try(f"cannot be read; {remedy}", reader.load)
        if self.transform is not None:
            transform = self.transform
            frame = self._try("cannot be transformed; check `transform`", lambda: transform(frame))
            if not hasattr(frame, "isStreaming"):
                raise RidgelineError(
                    f"`transform` of source `{self.format}` must return a DataFrame; "
                    f"got {type(frame).__name__}"
                )
        return self._select(frame, record)

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
            raise RidgelineError(f"Spark source `{self.format}` {what}; Spark says: {reason}") from error

    def _select(self, frame: DataFrame, record: str) -> DataFrame:
        """Select the columns of `schema`, in its order, cast to its types. Raises RidgelineError.

        `record`: a column to have before them; "": none.
        """
        found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        columns = [frame[record]] if record else []
        for field in Schema(self.schema).arrow:
            wanted = str(spark_type(field.type))
            if field.name not in found:
                raise RidgelineError(
                    f"Spark source `{self.format}` has no column `{field.name}`; "
                    f"{did_you_mean(field.name, found)} "
                    "Name the fields of `schema` so, or select and rename columns in `transform`"
                )
            if (found[field.name], wanted) == ("double", "float"):
                wanted = "double"  # the port refuses values that would change; Spark would not
            if not loses_nothing(found[field.name], wanted):
                raise RidgelineError(
                    f"column `{field.name}` of Spark source `{self.format}` is {found[field.name]}; "
                    f"`schema` wants {wanted}; "
                    f"cast it in `transform`, for example `CAST({field.name} AS {wanted.upper()})`, "
                    "or change `schema`"
                )
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


_NAMES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "int",
    pa.uint32(): "bigint",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.date64(): "date",
}
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
    "date": ("timestamp",),
    "timestamp_ntz": ("timestamp",),
}
"""The types to which each type widens without loss, besides itself."""
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def spark_type(kind: pa.DataType) -> str | None:  # noqa: PLR0911  one type after the other
    """The Spark type for an Arrow type, as `DataType.simpleString()` writes it; None if there is none."""
    types = pa.types
    if kind in _NAMES:
        return _NAMES[kind]
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_duration(kind):
        return "interval day to second"
    if types.is_time(kind):
        return "time(6)"
    if types.is_dictionary(kind):
        return spark_type(kind.value_type)
    return _nested_type(kind)


def _nested_type(kind: pa.DataType) -> str | None:
    """As `spark_type`, for lists, maps and structs."""
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        inner = spark_type(kind.value_type)
        return inner and f"array<{inner}>"
    if types.is_map(kind):
        key, item = spark_type(kind.key_type), spark_type(kind.item_type)
        return key and item and f"map<{key},{item}>"
    if types.is_struct(kind):
        parts = [(field.name, spark_type(field.type)) for field in kind]
        return (
            f"struct<{','.join(f'{name}:{part}' for name, part in parts)}>"
            if all(part for _, part in parts)
            else None
        )
    return None


def loses_nothing(found: str, wanted: str) -> bool:
    """True if each value of one Spark type can be cast to the other and back.

    >>> (
    ...     loses_nothing("int", "bigint"),
    ...     loses_nothing("bigint", "int"),
    ...     loses_nothing("decimal(10,2)", "decimal(38,18)"),
    ... )
    (True, False, True)
    """
    if found == wanted or wanted in _WIDER.get(found, ()):
        return True
    if not wanted.startswith("decimal("):
        return False
    precision, scale = _decimal(wanted)
    if found in _DIGITS:
        return precision - scale >= _DIGITS[found]
    if found.startswith("decimal("):
        found_precision, found_scale = _decimal(found)
        return scale >= found_scale and precision - scale >= found_precision - found_scale
    return False


def what_spark_says(error: Exception) -> str | None:
    """The text of an error that Spark raised, without JVM stack and secrets; None for other errors.

    >>> what_spark_says(ValueError("not of Spark")) is None
    True
    """
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    text = re.sub(r"^An error occurred while calling \w+\.\w+\.?\s*:?\s*([\w.$]+: )?", "", str(error))
    return mask_text(re.split(r"\s*\n\s*at |\s*JVM stacktrace", text, maxsplit=1)[0].strip())


_AWAY = re.compile(
    r"java\.net\.(?:Connect|NoRouteToHost|PortUnreachable|Socket|SocketTimeout|UnknownHost)Exception"
    r"|java\.nio\.channels\.ClosedChannelException|org\.apache\.http\.NoHttpResponseException"
    r"|org\.apache\.http\.conn\.\w*(?:Timeout|HttpHostConnect)Exception|javax\.net\.ssl\.SSLException"
    r"|hadoop\.ipc\.(?:Standby|Retriable)Exception|namenode\.SafeModeException"
    r"|hadoop\.fs\.s3a\.(?:AWSApiCallTimeout|AWSServiceThrottled|AWSStatus500)Exception"
    r"|Unable to execute HTTP request|HTTP (?:response code |status )?(?:500|502|503|504)"
    r"|org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotEnoughReplicas)Exception"
    r"|No space left on device|Disk quota exceeded|Stale file handle|Transport endpoint is not connected"
    r"|Connection (?:refused|reset|timed out|attempt failed)|Communications link failure"
)
_MOST_CAUSES = 20


def why_away(error: Exception) -> str:
    """The cause, in one line, if Spark could not write since a store is away or a disk is full; else ""."""
    for text in _causes(error):
        if found := _AWAY.search(text):
            line = text[text.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
            return mask_text(" ".join(line.split())[:500])
    return ""


def _causes(error: Exception) -> Iterator[str]:
    """The texts of Java for an error and its causes, the last one first."""
    thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[str] = []
    with contextlib.suppress(Exception):  # Java may be gone
        while thrown is not None and len(found) < _MOST_CAUSES:
            found.append(str(thrown.toString()))
            thrown = thrown.getCause()
    yield from reversed(found)


def _decimal(text: str) -> tuple[int, int]:
    precision, scale = text.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)
