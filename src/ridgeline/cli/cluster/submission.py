"""The common parts of submissions to clusters: settings of a driver on a node, and Spark's command."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from ridgeline.api.support import trust
from ridgeline.engine.spark.cluster import spark_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ridgeline.cli.settings import RunSettings

PROGRAM = "ridgeline_driver.py"
SETTINGS = "spark.properties"
_LOOPBACK = ("127.", "localhost", "::1")


def stored(settings: RunSettings, name: str) -> RunSettings:
    """The settings with a checkpoint whose path starts at the root: the driver runs in another folder."""
    from ridgeline.api.support.files import is_local, local_path

    settings = settings.stored(name)
    checkpoint = settings.options.checkpoint or ""
    place = local_path(checkpoint) if is_local(checkpoint) else checkpoint
    return replace(settings, options=replace(settings.options, checkpoint=place))


def served(settings: RunSettings) -> tuple[RunSettings, str]:
    """The settings with a web service that other hosts reach, and the token that was made for it, if one."""
    service = settings.service
    if service.no_service:
        return settings, ""
    host = "0.0.0.0" if service.host.startswith(_LOOPBACK) else service.host  # noqa: S104  it asks for a token
    made = "" if service.token or service.tokens else secrets.token_urlsafe(32)
    return replace(settings, service=replace(service, host=host, token=service.token or made or None)), made


def command(place: Path, name: str, master: str, program: str, files: Sequence[str] = ()) -> list[str]:
    """The words of `spark-submit`. Settings are in a file of `place`: all users can read a command line."""
    where = ["--master", master, "--deploy-mode", "cluster", "--name", name]
    settings = ["--properties-file", str(place / SETTINGS), "--load-spark-defaults"]
    sent = ["--files", ",".join(files)] if files else []
    return [spark_program("spark-submit"), *where, *settings, *sent, program]


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """Write a file of properties, as Java reads it. Raises OSError."""
    import javaproperties

    with open(path, "x", encoding="ascii", opener=trust.private_opener) as file:
        file.write(javaproperties.dumps(settings, timestamp=None))


__all__ = ["PROGRAM", "SETTINGS", "command", "served", "stored", "write_settings"]
