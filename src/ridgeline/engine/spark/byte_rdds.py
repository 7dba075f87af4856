"""RDDs of bytes that a Python function runs over, made with few calls to the JVM.

The same as PySpark's `mapPartitionsWithIndex` makes, but as Java objects. `collectAsync` starts their jobs
without a thread that waits. A function is pickled once, however many jobs run it: each micro-batch of a query
is one. Records are bytes already, so they are neither batched nor pickled a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.core.rdd import _wrap_function
from pyspark.serializers import NoOpSerializer

from ridgeline.engine.spark.java_object import JavaObject

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
