"""Workers' Python from an archive: what `--archives` gives to Spark."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from ridgeline.api.errors import PackageError

ARCHIVES = "spark.archives"
PYTHON = "spark.pyspark.python"
_FOLDER = "environment"
_SUFFIXES = (".tar.gz", ".tgz", ".tar", ".zip")
_PACK = "make one: `venv-pack -o env.tar.gz`, or `conda-pack -o env.tar.gz`"


def archive_settings(given: str, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for `FILE[#FOLDER]`: unpacked beside each executor, its Python runs the workers.

    Archives that `conf` has are kept, and so is a Python that it names. Raises PackageError for what is no
    archive, or where workers are processes of this host.
    """
    if re.match(r"local(\[|$)", master):
        what = f"`--archives {given}` is for workers of a cluster, and `{master}` has none"
        raise PackageError(f"{what}; leave it out, or give `--master`")
    name, _, folder = given.partition("#")
    folder = folder or _FOLDER
    if not re.fullmatch(r"[A-Za-z0-9_][\w.-]*", folder):
        raise PackageError(f"`--archives {given}` names no folder behind `#`; write `{name}#{_FOLDER}`")
    if not name.lower().endswith(_SUFFIXES):
        raise PackageError(f"`--archives {given}` is no archive ({', '.join(_SUFFIXES)}); {_PACK}")
    if re.match(r"\w+:", name) is None:
        name = str(Path(name).absolute())
        _check(name)
    others = conf.get(ARCHIVES, "")
    settings = {ARCHIVES: ",".join(filter(None, [others, f"{name}#{folder}"]))}
    return settings if PYTHON in conf else {**settings, PYTHON: f"./{folder}/bin/python"}


def _check(name: str) -> None:
    """Refuse a file that Spark could not unpack; only its beginning is read. Raises PackageError."""
    try:
        if name.lower().endswith(".zip"):
            zipfile.ZipFile(name).close()
        else:
            with tarfile.open(name) as archive:
                archive.next()
    except OSError as error:
        raise PackageError(f"archive `{name}` cannot be read: {error.strerror or error}; {_PACK}") from None
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError) as error:
        raise PackageError(f"archive `{name}` is damaged or none: {error}; {_PACK}") from None
