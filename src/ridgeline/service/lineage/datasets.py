"""The datasets that operators of the library read and write, as OpenLineage's naming rules name them.

An operator of another author says its own by a method `datasets()`, which returns pairs of namespace and
name. Generators, sockets and consoles have no name there, and are left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ridgeline.api.operator import Operator
from ridgeline.api.support.files import is_local, local_path
from ridgeline.api.support.masking import mask_text, printable
from ridgeline.connect.secrets import secret_value

_LIBRARY = "ridgeline.operators."
_GLOB = re.compile(r"[*?\[{]")
_S3 = ("s3a", "s3n")
_KAFKA_PORT = 9092
_POSTGRES_PORT = 5432
_MARIADB_PORT = 3306


class Dataset(NamedTuple):
    """A dataset: `("kafka://broker:9092", "orders")`."""

    namespace: str
    name: str


def datasets_of(operator: Operator) -> list[Dataset]:
    """The datasets that an operator reads or writes, without secrets. Empty if they are not known.

    Never raises: an address that cannot be read is left out.
    """
    own = getattr(operator, "datasets", None)
    try:
        if callable(own):
            found: Iterable[Any] = own()
        else:
            found = _of_library(operator)
        shown = [Dataset(*(printable(mask_text(str(part))) for part in pair)) for pair in found]
    except Exception:  # noqa: BLE001  an author's method, a property that cannot be read here
        return []
    return list(dict.fromkeys(shown))


def _of_library(operator: Operator) -> Iterator[Dataset]:
    for kind in type(operator).__mro__:
        name = _KINDS.get(kind.__name__)
        if name is not None and kind.__module__.startswith(_LIBRARY):
            yield from name(operator)
            return


def file_dataset(path: str | Path) -> Dataset:
    """The dataset of a path or URL of files; of a pattern, the folder that it is in.

    >>> file_dataset("s3a://sales/orders/*.parquet")
    Dataset(namespace='s3://sales', name='orders')
    >>> file_dataset("hdfs://names:8020/orders")
    Dataset(namespace='hdfs://names:8020', name='/orders')
    """
    text = str(path)
    if is_local(text):
        whole = os.path.abspath(local_path(text))  # noqa: PTH100  a text with patterns
        return Dataset("file", _before_pattern(whole))
    parts = urlsplit(text)
    scheme = "s3" if parts.scheme in _S3 else parts.scheme
    place = parts.netloc.rpartition("@")[2] if scheme not in {"abfs", "abfss", "wasbs"} else parts.netloc
    name = _before_pattern(parts.path) or "/"
    if scheme in {"s3", "gs", "gcs"}:
        name = name.strip("/") or "/"
    return Dataset(f"{'gs' if scheme == 'gcs' else scheme}://{place}", name)


def _before_pattern(path: str) -> str:
    found = _GLOB.search(path)
    return path if found is None else path[: found.start()].rpartition("/")[0]


def _files(operator: Any) -> Iterator[Dataset]:
    paths = operator.path if isinstance(operator.path, (list, tuple)) else [operator.path]
    yield from (file_dataset(path) for path in paths)


def _database_file(operator: Any) -> Iterator[Dataset]:
    whole = file_dataset(operator.path)
    for table in _tables(operator):
        yield Dataset(whole.namespace, f"{whole.name}/{table}")


def _tables(operator: Any) -> list[str]:
    table = getattr(operator, "table", None)
    return [table] if table else ["(query)"]


def _kafka_namespace(servers: str) -> str:
    first = servers.split(",", maxsplit=1)[0].strip().rpartition("://")[2]
    return f"kafka://{first if ':' in first else f'{first}:{_KAFKA_PORT}'}"


def _kafka(operator: Any) -> Iterator[Dataset]:
    from ridgeline.operators.kafka._client import found_servers

    servers = found_servers(operator.servers)
    if servers:
        topics = [operator.topic] if isinstance(operator.topic, str) else operator.topic
        yield from (Dataset(_kafka_namespace(servers), topic) for topic in topics)


def _postgres(operator: Any) -> Iterator[Dataset]:
    from ridgeline.operators.postgres.connecting import Server

    given = Server(operator.dsn, operator.password, operator.connection).given()
    host, database = given.get("host", "localhost"), given.get("dbname", given.get("user", ""))
    for table in _tables(operator):
        name = table if "." in table or table == "(query)" else f"public.{table}"
        yield Dataset(f"postgres://{host}:{given.get('port', _POSTGRES_PORT)}", f"{database}.{name}")


def _mariadb(operator: Any) -> Iterator[Dataset]:
    parts = urlsplit(secret_value(operator.url, "url"))
    host, port = parts.hostname or "localhost", parts.port or _MARIADB_PORT
    database = operator.connection.get("database", parts.path.strip("/"))
    for table in _tables(operator):
        yield Dataset(f"mysql://{host}:{port}", table if "." in table else f"{database}.{table}")


def _iceberg(operator: Any) -> Iterator[Dataset]:
    uri = operator.properties.get("uri")
    place = f"iceberg://{operator.catalog}"
    if uri is not None:
        text = secret_value(uri, "properties.uri")
        parts = urlsplit(text)
        place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else place
    yield Dataset(place, operator.table)


def _spark(operator: Any) -> Iterator[Dataset]:
    options: Mapping[str, Any] = {name.lower(): value for name, value in operator.options.items()}
    if operator.format == "kafka":
        namespace = _kafka_namespace(str(options.get("kafka.bootstrap.servers", "")))
        topics = str(
            options.get("subscribe") or options.get("topic") or options.get("subscribepattern") or ""
        )
        yield from (Dataset(namespace, topic.strip()) for topic in topics.split(",") if topic.strip())
    elif "path" in options:
        yield file_dataset(str(options["path"]))


_KINDS: Mapping[str, Callable[[Any], Iterator[Dataset]]] = {
    "KafkaInput": _kafka,
    "KafkaOutput": _kafka,
    "PostgresInput": _postgres,
    "PostgresChanges": _postgres,
    "PostgresOutput": _postgres,
    "MariaDbInput": _mariadb,
    "MariaDbOutput": _mariadb,
    "SqliteInput": _database_file,
    "SqliteOutput": _database_file,
    "DuckDbInput": _database_file,
    "DuckDbOutput": _database_file,
    "FileInput": _files,
    "FileReplayInput": _files,
    "FileOutput": _files,
    "DeltaInput": _files,
    "DeltaOutput": _files,
    "IcebergInput": _iceberg,
    "IcebergOutput": _iceberg,
    "QueueInput": _files,
    "QueueOutput": _files,
    "SparkInput": _spark,
    "SparkOutput": _spark,
}
