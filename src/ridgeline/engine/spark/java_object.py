"""Objects in Spark's JVM, which py4j reaches by the names of their members."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from py4j.java_gateway import java_import
from pyspark.java_gateway import ensure_callback_server_started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class JavaObject(Protocol):
    """A handle to an object in the JVM: an RDD, a Dataset, an exception, a package.

    Its methods are those of its Java class. Each call is a message to the JVM, and raises Py4JJavaError with
    what Java raises.
    """

    def __getattr__(self, name: str, /) -> Any:
        """A member of the Java object."""


# `foreachBatch` without PySpark's wrapping: a session and a DataFrame cost a dozen calls to the JVM.

_SOURCES = "org.apache.spark.sql.execution.streaming.sources"


class _EachBatch:
    """Implements Spark's Java interface; `error` is where Spark's wrapper looks for what was raised."""

    def __init__(self, function: Callable[[JavaObject, int], None]) -> None:
        self._function = function
        self.error: BaseException | None = None

    def call(self, dataset: JavaObject, batch_id: int) -> None:
        try:
            self._function(dataset, batch_id)
        except BaseException as error:
            self.error = error
            raise

    class Java:
        implements: ClassVar = [f"{_SOURCES}.PythonForeachBatchFunction"]


def call_each_batch(
    writer: DataStreamWriter, session: SparkSession, function: Callable[[JavaObject, int], None]
) -> None:
    """As `writer.foreachBatch(function)`, but the function gets the Java Dataset unwrapped."""
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001  as PySpark's own method does it
    java_import(gateway.jvm, f"{_SOURCES}.*")
    gateway.jvm.PythonForeachBatchHelper.callForeachBatch(writer._jwrite, _EachBatch(function))  # noqa: SLF001
    ensure_callback_server_started(gateway)
