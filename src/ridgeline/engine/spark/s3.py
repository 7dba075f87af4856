"""One set of S3 settings for both clients: Spark's S3A in Java, and pyarrow in the driver and in workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext


def s3_settings(context: SparkContext) -> dict[str, object]:
    """Spark's settings of S3 (`spark.hadoop.fs.s3a.*`) as arguments of pyarrow's S3FileSystem."""
    configuration = context._jsc.hadoopConfiguration()  # noqa: SLF001  the only way to Hadoop

    def secret(name: str) -> str:
        found = configuration.getPassword(f"fs.s3a.{name}")  # from a credential file too
        return "".join(map(str, found)) if found is not None else ""

    return _arguments(lambda name: str(configuration.getTrimmed(f"fs.s3a.{name}") or ""), secret)


def s3_settings_of(conf: Mapping[str, str]) -> dict[str, object]:
    """The same of settings that are given without a Spark that runs."""

    def setting(name: str) -> str:
        return conf.get(f"spark.hadoop.fs.s3a.{name}", "").strip()

    return _arguments(setting, setting)


def _arguments(setting: Callable[[str], str], secret: Callable[[str], str]) -> dict[str, object]:
    """The arguments of pyarrow's S3FileSystem; those that are not set are left out."""
    settings: dict[str, object] = {
        "access_key": secret("access.key"),
        "secret_key": secret("secret.key"),
        "session_token": secret("session.token"),
        "region": setting("endpoint.region"),
    }
    endpoint = setting("endpoint")
    if endpoint:
        scheme, separator, host = endpoint.rpartition("://")
        settings["endpoint_override"] = host
        settings["scheme"] = (
            scheme if separator else "http" if setting("connection.ssl.enabled") == "false" else "https"
        )
        settings["force_virtual_addressing"] = setting("path.style.access") != "true"
    return {name: value for name, value in settings.items() if value}


def s3a_from_environment() -> dict[str, str]:
    """Settings for Spark from those AWS_* variables that pyarrow heeds and Hadoop does not."""
    found = {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region:
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    return found
