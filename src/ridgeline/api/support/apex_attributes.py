"""All attributes of Apache Apex, by context, and other names that are no attributes: what to use instead."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.api.attributes import attributes_of
from ridgeline.api.errors import nearest
from ridgeline.api.support.attribute import Scope

_NO_JVM = "no JVM runs operators; those of Spark: `--conf spark.executor.extraJavaOptions=...`"
_HADOOP_TOKENS = "Spark renews tokens: `--conf spark.security.credentials.renewalRatio=...`"
_RECORDINGS = "ask a running application: `ridgeline record start`"
_PARTS = "nothing to set: a recording has a Parquet file for each window and partition"
_SECURITY = "`--token` and `--read-token` of `ridgeline run`"
_TLS = "`--web-cert` and `--web-key` for the web service; between hosts TLS is on by itself"

PORT: Mapping[str, str] = {
    "QUEUE_CAPACITY": "",
    "BUFFER_MEMORY_MB": "",
    "SPIN_MILLIS": "nothing: containers do not poll, they are woken by messages",
    "PARTITION_PARALLEL": "",
    "UNIFIER_LIMIT": "",
    "UNIFIER_SINGLE_FINAL": "",
    "AUTO_RECORD": _RECORDINGS,
    "IS_OUTPUT_UNIFIED": "nothing to set: `ridgeline plan` shows which outputs have unifiers",
    "STREAM_CODEC": "",
    "TUPLE_CLASS": "the port's schema: `InputPort(Payment)`, or the stream's, which reaches ports of `Any`",
}
"""Attributes of ports. An empty text: the attribute of the same name, in lower case."""

OPERATOR: Mapping[str, str] = {
    "ACTIVATION_WINDOW_ID": "nothing to set: an operator begins after the last committed window",
    "SPIN_MILLIS": "nothing: input operators are called once a window, a `PushInput` when it wakes",
    "RECOVERY_ATTEMPTS": "",
    "STATS_LISTENERS": "`add_operator(..., stats_listeners=[...])`",
    "STATELESS": "nothing: an operator without declared state is stateless",
    "MEMORY_MB": "",
    "VCORES": "",
    "JVM_OPTIONS": _NO_JVM,
    "APPLICATION_WINDOW_COUNT": "",
    "SLIDE_BY_WINDOW_COUNT": "",
    "CHECKPOINT_WINDOW_COUNT": "nothing: every window is a checkpoint here",
    "LOCALITY_HOST": "",
    "LOCALITY_RACK": "",
    "STORAGE_AGENT": "`--checkpoint URI`: a local path, S3, or what Hadoop reads",
    "PROCESSING_MODE": "",
    "TIMEOUT_WINDOW_COUNT": "",
    "AUTO_RECORD": _RECORDINGS,
    "PARTITIONER": "",
    "COUNTERS_AGGREGATOR": "deprecated in Apex; `Metric(aggregate=...)` of the operator's class",
    "METRICS_AGGREGATOR": "`Metric(aggregate=...)` of the operator's class",
    "METRICS_DIMENSIONS_SCHEME": "nothing: metrics are kept by operator; `Metric(by_partition=True)`",
    "RECOVERY_MODE": "nothing: a container keeps its state in memory where that is right",
}
"""Attributes of operators."""

APPLICATION: Mapping[str, str] = {
    "APPLICATION_NAME": "the first argument of `Application(name)`",
    "APPLICATION_DOC_LINK": "`doc_link`",
    "APPLICATION_DATA_LINK": "`data_link`",
    "METRICS_TRANSPORT": "Prometheus, or an OpenTelemetry collector, which reads `/metrics`",
    "APPLICATION_ID": "nothing to set: each run gets an id, which `ridgeline status --info` shows",
    "APP_PACKAGE_SOURCE": "nothing to set: it is the file that `ridgeline run` was given",
    "DEBUG": "`--log-level DEBUG`",
    "CONTAINER_JVM_OPTIONS": _NO_JVM,
    "LOGGER_APPENDER": "`--log-file` and `--log-format`",
    "MASTER_MEMORY_MB": "STRAM runs in the driver: `--conf spark.driver.memory=...`",
    "BUFFER_SPOOLING": "nothing: large blocks lie in shared memory, bounded by `queue_capacity`",
    "STREAMING_WINDOW_SIZE_MILLIS": '`Application(name, window="500ms")`, `--attribute window=500ms`',
    "CHECKPOINT_WINDOW_COUNT": "nothing: every window is a checkpoint here",
    "APPLICATION_PATH": "`--checkpoint URI`",
    "TUPLE_RECORDING_PART_FILE_SIZE": _PARTS,
    "TUPLE_RECORDING_PART_FILE_TIME_MILLIS": _PARTS,
    "GATEWAY_CONNECT_ADDRESS": "no gateway stands before the web service: `--host` and `--port`",
    "GATEWAY_USE_SSL": _TLS,
    "GATEWAY_USER_NAME": _SECURITY,
    "GATEWAY_PASSWORD": _SECURITY,
    "PUBSUB_CONNECT_TIMEOUT_MILLIS": "nothing: figures are served as server-sent events, by no gateway",
    "HEARTBEAT_LISTENER_THREAD_COUNT": "nothing: one thread listens to all heartbeats",
    "HEARTBEAT_INTERVAL_MILLIS": "`heartbeat_interval`, a duration",
    "HEARTBEAT_TIMEOUT_MILLIS": "`heartbeat_timeout`, a duration",
    "RESOURCE_ALLOCATION_TIMEOUT_MILLIS": "`--conf spark.ridgeline.slots.patience=20s`, then fewer slots",
    "STATS_MAX_ALLOWABLE_WINDOWS_LAG": "",
    "ENABLE_STATS_RECORDING": "`--event-log FILE` keeps all figures",
    "THROUGHPUT_CALCULATION_INTERVAL": "",
    "THROUGHPUT_CALCULATION_MAX_SAMPLES": "nothing: all windows of `throughput_calculation_interval` count",
    "RPC_LATENCY_COMPENSATION_SAMPLES": "nothing: offsets of clocks are computed from all heartbeats",
    "CONTAINER_OPTS_CONFIGURATOR": _NO_JVM,
    "STRAM_HTTP_AUTHENTICATION": _SECURITY,
    "STRING_CODECS": "properties have types: pydantic converts texts",
    "MAX_CONSECUTIVE_CONTAINER_FAILURES_FOR_BLACKLIST": "`--conf spark.excludeOnFailure.enabled=true`",
    "BLACKLISTED_NODE_REMOVAL_TIME_MILLIS": "`--conf spark.excludeOnFailure.timeout=1h`",
    "AFFINITY_RULES_SET": "`app.add_affinity(...)`",
    "LIBRARY_JARS": "`--conf spark.jars=...`; Python: `--conf spark.submit.pyFiles=...`",
    "SSL_CONFIG": _TLS,
    "CONTAINERS_MAX_COUNT": "",
    "APPLICATION_ATTEMPT_ID": "nothing to set: the epoch of the checkpoint counts the drivers",
    "FAST_PUBLISHER_SUBSCRIBER": "nothing: Arrow and shared memory carry all streams",
    "HDFS_TOKEN_LIFE_TIME": _HADOOP_TOKENS,
    "RM_TOKEN_LIFE_TIME": _HADOOP_TOKENS,
    "PRINCIPAL": "`--conf spark.kerberos.principal=...`",
    "KEY_TAB_FILE": "`--conf spark.kerberos.keytab=...`",
    "TOKEN_REFRESH_ANTICIPATORY_FACTOR": _HADOOP_TOKENS,
    "ARCHIVES": "`--archives FILE`, or `--conf spark.archives=...`",
    "FILES": "`--conf spark.files=...`",
    "IS_CONNECTED_TO_DELAY_OPERATOR": "nothing to set: the plan knows what a `Delay` reads",
}
"""Attributes of applications."""
_OWN: Mapping[str, str] = {"window": 'the application\'s: `Application(name, window="1s")`'}


def unknown_attribute(name: str, scope: Scope) -> str:
    """The remedy for a name that no attribute has: what to use instead, or a name like it."""
    instead = _instead(name, scope)
    if instead:
        nothing, _, why = instead.partition(": ")
        return f"leave it out: {why}" if nothing.startswith("nothing") else f"use instead: {instead}"
    close = nearest(name.lower(), attributes_of(scope))
    if close is not None:
        return f"did you mean `{close}`?"
    return f"`ridgeline library --attributes --scope {scope.replace(' ', '-')}` shows all"


def _instead(name: str, scope: Scope) -> str | None:
    """The substitute for an attribute of Apex, of this scope first."""
    first = APPLICATION if scope is Scope.APPLICATION else OPERATOR if scope is Scope.OPERATOR else PORT
    texts = (known.get(name.upper()) for known in (first, OPERATOR, APPLICATION, PORT))
    return _OWN.get(name) or next(filter(None, texts), None)
