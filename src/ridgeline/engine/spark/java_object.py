"""Objects in Spark's JVM, which py4j reaches by the names of their members, and RDDs of bytes among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from py4j.java_gateway import java_import
from pyspark import SparkContext
from pyspark.core.rdd import _wrap_function
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.serializers import NoOpSerializer

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


# RDDs of bytes that a Python function runs over, made with few calls to the JVM.
#
# The same as PySpark's `mapPartitionsWithIndex` makes, but as Java objects. `collectAsync` starts their jobs
# without a thread that waits. A function is pickled once, however many jobs run it: each micro-batch of a
# query is one. Records are bytes already, so they are neither batched nor pickled a second time.

StageFunction = Callable[[int, Iterable[Any]], Iterator[bytes]]
"""Partition number and records in, bytes out."""
_AS_IT_IS = NoOpSerializer()


class ByteRdds:
    """Makes the RDDs of one SparkContext: Scala's, as Java objects."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        jvm: Any = context._jvm  # noqa: SLF001  PySpark has no other way to it
        self._python_rdd = jvm.PythonRDD
        self._functions: dict[StageFunction, JavaObject] = {}
        self._to_scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala

    def preferring(self, hosts: Sequence[str], function: StageFunction) -> JavaObject:
        """A function over one empty record, in a task that prefers these hosts; none: any."""
        context: Any = self._context
        tag = context.parallelize([0], 1)._jrdd.classTag()  # noqa: SLF001  of arrays of bytes
        pair = context._jvm.scala.Tuple2(bytearray(), self._to_scala(self._java_list(hosts)).toSeq())  # noqa: SLF001
        records = context._jsc.sc().makeRDD(self._to_scala(self._java_list([pair])).toSeq(), tag)  # noqa: SLF001
        return self.run(records, function)

    def _java_list(self, values: Sequence[Any]) -> JavaObject:
        found: Any = self._context._jvm.java.util.ArrayList()  # type: ignore[union-attr]  # noqa: SLF001
        for value in values:
            found.add(value)
        return found

    def run(self, rdd: JavaObject, function: StageFunction, reads: NoOpSerializer = _AS_IT_IS) -> JavaObject:
        """A function over the partitions of an RDD of byte arrays, which `reads` gives it."""
        return self._python_rdd(rdd, self._wrapped(function, reads), False, False)  # noqa: FBT003  Scala's

    def _wrapped(self, function: StageFunction, reads: NoOpSerializer) -> JavaObject:
        if function not in self._functions:
            self._functions[function] = _wrap_function(self._context, function, reads, _AS_IT_IS)
        return self._functions[function]
