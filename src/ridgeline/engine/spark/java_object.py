"""The type of objects in Spark's JVM, which py4j reaches by the names of their Java members."""

from __future__ import annotations

from typing import Any, Protocol


class JavaObject(Protocol):
    """A handle to an object in the JVM: an RDD, a Dataset, an exception, a package.

    Its methods are those of its Java class. Each call is a message to the JVM, and raises Py4JJavaError with
    what Java raises.
    """

    def __getattr__(self, name: str, /) -> Any:
        """A member of the Java object."""
