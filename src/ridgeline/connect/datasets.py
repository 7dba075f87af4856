"""The datasets that connectors read and write, as pairs of a namespace and a name, without secrets.

A connector says its own by `datasets()`. The names follow the rules of OpenLineage, so that who writes down
where data come from can join them with those of other systems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ridgeline.api.operator import Operator
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import mask_text, printable

_GLOB = re.compile(r"[*?\[{]")
_KAFKA_PORT = 9092


class Dataset(NamedTuple):
    """A dataset: `("kafka://broker:9092", "orders")`."""

    namespace: str
    name: str


def datasets_of(operator: Operator) -> list[Dataset]:
    """The datasets that an operator reads or writes. Empty if it has none, or cannot say them here."""
    own = getattr(operator, "datasets", None)
    try:
        pairs = own() if callable(own) else ()
        found = [Dataset(*map(str, pair)) for pair in pairs]
        return [Dataset(printable(mask_text(one.namespace)), printable(mask_text(one.name))) for one in found]
    except Exception:  # noqa: BLE001  an author's method, or a property that cannot be read here
        return []


def file_datasets(path: str | Path | Sequence[str | Path]) -> list[Dataset]:
    """The datasets of paths or URLs of files; of a pattern, the folder that it is in.

    >>> file_datasets("s3a://sales/orders/*.parquet")
    [Dataset(namespace='s3://sales', name='orders')]
    >>> file_datasets(["hdfs://names:8020/orders"])
    [Dataset(namespace='hdfs://names:8020', name='/orders')]
    """
    return [_file(str(one)) for one in ([path] if isinstance(path, str | Path) else path)]


def absolute(path: str | Path) -> str:
    """A path for all processes: absolute, if it is on a disk."""
    return local_path(str(path)) if is_local(str(path)) else str(path)


class AtPath(Operator):
    """The base of operators that have a path, or a list of them, where their files are."""

    def settle_properties(self) -> None:
        """Make relative paths absolute."""
        super().settle_properties()
        own: Any = self
        own.path = absolute(own.path) if isinstance(own.path, str | Path) else list(map(absolute, own.path))

    def datasets(self) -> list[Dataset]:
        """The files, as `ridgeline.connect.datasets` names them."""
        own: Any = self
        return file_datasets(own.path)


def _file(text: str) -> Dataset:
    if is_local(text):
        whole = os.path.abspath(local_path(text))  # noqa: PTH100  a text with patterns
        return Dataset("file", _before_pattern(whole))
    parts = urlsplit(text)
    scheme = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}.get(parts.scheme, parts.scheme)
    place = parts.netloc if scheme in {"abfs", "abfss", "wasbs"} else parts.netloc.rpartition("@")[2]
    name = _before_pattern(parts.path) or "/"
    return Dataset(f"{scheme}://{place}", (name.strip("/") or "/") if scheme in {"s3", "gs"} else name)


def _before_pattern(path: str) -> str:
    found = _GLOB.search(path)
    return path if found is None else path[: found.start()].rpartition("/")[0]


def kafka_datasets(servers: str, topics: str | Sequence[str]) -> list[Dataset]:
    """The topics of a cluster, which is named by the first of its servers; none without servers."""
    first = servers.split(",", maxsplit=1)[0].strip().rpartition("://")[2]
    place = f"kafka://{first if ':' in first else f'{first}:{_KAFKA_PORT}'}"
    names = topics.split(",") if isinstance(topics, str) else topics
    return [Dataset(place, topic.strip()) for topic in names if topic.strip()] if first else []


def spark_datasets(source: str, options: Mapping[str, object]) -> list[Dataset]:
    """The datasets of a source or sink of Spark, as far as its options say them."""
    given = {name.lower(): str(value) for name, value in options.items()}
    if source == "kafka":
        topics = given.get("subscribe") or given.get("topic") or given.get("subscribepattern") or ""
        return kafka_datasets(given.get("kafka.bootstrap.servers", ""), topics)
    return file_datasets(given["path"]) if "path" in given else []
