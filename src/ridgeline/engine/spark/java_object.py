"""Objects in Spark's JVM, which py4j reaches by the names of their members, and the JVM without a Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from pyspark import SparkConf


class JavaObject(Protocol):
    """A handle to an object in the JVM: an RDD, a Dataset, an exception, a package.

    Its methods are those of its Java class. Each call is a message to the JVM, and raises Py4JJavaError with
    what Java raises.
    """

    def __getattr__(self, name: str, /) -> Any:
        """A member of the Java object."""


class JavaAlone:
    """The Java process of this program, for those who need of a SparkContext no more than Hadoop's clients.

    These are `HadoopStorage` and `s3_settings`. It has the attributes of a SparkContext that they use.
    """

    applicationId = ""  # noqa: N815  PySpark's name

    def __init__(self, conf: SparkConf) -> None:
        """`conf`: the settings of the Spark that is to follow. Java runs."""
        from pyspark import SparkContext

        self._gateway = cast("Any", SparkContext._gateway)  # noqa: SLF001  PySpark has no other way
        self._jvm = self._gateway.jvm
        self._jsc = self
        self._conf = conf
        settings = self._jvm.org.apache.spark.SparkConf(True)  # noqa: FBT003  with those of the Java process
        for name, value in conf.getAll():
            settings.set(name, value)
        self._hadoop = self._jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(settings)

    def hadoopConfiguration(self) -> Any:  # noqa: N802  Spark's name
        """Hadoop's settings, as Spark makes them."""
        return self._hadoop

    def getConf(self) -> SparkConf:  # noqa: N802  PySpark's name
        """The settings."""
        return self._conf
