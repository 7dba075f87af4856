"""The payload of a driver on a cluster: all that it needs from the host of `submit`, in one zip file.

It holds secrets, so it belongs to this user alone. YARN keeps it in a folder that is closed to others, too,
and Kubernetes in a Secret.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pydantic

from ridgeline.api.support import trust
from ridgeline.cli.errors import CommandError
from ridgeline.cli.packages import is_package
from ridgeline.cli.settings import RunSettings, plain_words
from ridgeline.plan.spec.form import form_of
from ridgeline.settings.files import FILE, PREFIX, SITE, USER

if TYPE_CHECKING:
    from ridgeline.settings.layers import Layer

HERE = "submitted"
"""The folder beside the driver into which the payload is unpacked; its paths begin with it."""
DRIVER = "driver.json"
_RUN = f"{PREFIX}RUN__".lower()
_TRAVELLING = ("AWS_", "OTEL_", PREFIX)
"""Beginnings of variables that a driver reads itself, and that the node has not."""
_INPUTS = {
    "service": ("tokens", "web_cert", "web_key", "client_ca"),
    "cluster": ("tls_cert", "tls_key"),
}
"""Options that name a file to read, by the group that they are in."""
_OUTPUTS = {"service": ("event_log", "audit_log", "metrics_file"), "logs": ("log_file",)}
"""Options that name a file to write."""


@dataclass(frozen=True, slots=True)
class Driver:
    """The command of a driver. `resume`: the words about what a checkpoint keeps, for its first start alone.

    `target`, `words`, `own`: APP, options of `run`, and those of the application. `roots`: folders that
    modules are imported from. `environment`: further variables.
    """

    id: str
    name: str
    store: str
    target: str
    words: tuple[str, ...]
    resume: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> str:
        """It as the payload has it."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Driver:
        """The driver of a text that `encoded` made."""
        return pydantic.TypeAdapter(cls).validate_json(text)


def check_files(settings: RunSettings, which: str, where: str) -> None:
    """Refuse options that name a file in the folder of a driver on a cluster. Raises CommandError.

    `which`: what becomes of that folder; `where`: whose absolute paths are.
    """
    if settings.profiling.profile:
        raise CommandError(
            f"`--profile` would write into a folder {which}; leave it or `--deploy-mode cluster` out"
        )
    for group, names in _OUTPUTS.items():
        for name in names:
            value = getattr(getattr(settings, group), name)
            if value is not None and not Path(value).is_absolute():
                option = f"--{name.replace('_', '-')}"
                raise CommandError(
                    f"`{option} {value}` would lie in a folder {which}; give an absolute path, which is one "
                    f"of {where}"
                )


def write(
    path: Path,
    settings: RunSettings,
    layers: Sequence[Layer],
    submission: str,
    name: str,
    store: str,
    spark: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Write the payload of an application that is loaded in this process. `store`: where `name` lives.

    `spark`: settings of Spark that travel here; all others are given to `spark-submit`.

    Raises CommandError for a file that an option names and that is not there, OSError.
    """
    files: dict[str, str | bytes] = {}
    settings = _with_inputs(settings, files)
    target, roots = _application(settings, files)
    conf = [word for key, value in spark.items() for word in ("--conf", f"{key}={value}")]
    words = [*_options(settings), *conf, *_configured(layers, files)]
    driver = Driver(
        submission,
        name,
        store,
        target,
        tuple(words),
        tuple(plain_words(settings.resume)),
        tuple(settings.own),
        roots,
        _environment(settings, files),
    )
    files[DRIVER] = driver.encoded().encode()
    with (
        open(path, "xb", opener=trust.private_opener) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for place, content in files.items():
            if isinstance(content, bytes):
                archive.writestr(place, content)
            else:
                archive.writestr(place, Path(content).read_bytes())


def _with_inputs(settings: RunSettings, files: dict[str, str | bytes]) -> RunSettings:
    """The settings with the places of files as they are on the node. Raises CommandError."""
    for group, names in _INPUTS.items():
        options = getattr(settings, group)
        for name in names:
            given = getattr(options, name)
            if given is None:
                continue
            if not Path(given).is_file():
                raise CommandError(
                    f"there is no file `{given}`, which `--{name.replace('_', '-')}` names; give another one"
                )
            files[f"files/{name}"] = given
            options = replace(options, **{name: f"{HERE}/files/{name}"})
        settings = replace(settings, **{group: options})
    return settings


def _options(settings: RunSettings) -> Iterator[str]:
    """The options of `run` on the node. Spark's settings, the archive and the master are those of YARN's."""
    options = replace(settings.options, master=None, conf={})
    cluster = replace(settings.cluster, archives=None)
    written = replace(settings.written, conf_file=None)
    service = replace(settings.service, store=None, store_name=None)
    for group in (written, options, settings.view, cluster, settings.logs, service):
        yield from plain_words(group)
    yield from ("--checkpoint", str(settings.options.checkpoint))


def _configured(layers: Sequence[Layer], files: dict[str, str | bytes]) -> Iterator[str]:
    """Put the configuration of files into the payload, without options of the run, which are decided.

    Yields the words that name it.
    """
    outer: dict[str, Any] = {}
    for number, layer in enumerate(layers):
        values = {key: value for key, value in layer.values.items() if not key.startswith("run.")}
        if layer.name in {SITE, USER}:
            outer |= values
        elif layer.name == FILE and values:
            files[f"files/{number}.json"] = _json(values)
            yield from ("--conf-file", f"{HERE}/files/{number}.json")
    if outer:
        files["config/ridgeline/ridgeline.json"] = _json(outer)


def _json(values: Mapping[str, Any]) -> bytes:
    return json.dumps(values, default=str).encode()


def _environment(settings: RunSettings, files: Mapping[str, object]) -> dict[str, str]:
    """Variables for the driver. Secrets of the web service are read where the command runs."""
    from ridgeline.api.support.secrets.providers import provided_option

    found = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(_TRAVELLING) and not name.lower().startswith(_RUN)
    }
    service = settings.service
    for variable, option, value in (
        ("RIDGELINE_TOKEN", "--token", service.token),
        ("RIDGELINE_READ_TOKEN", "--read-token", service.read_token),
        ("RIDGELINE_OIDC_CLIENT_SECRET", "--oidc-client-secret", service.oidc_client_secret),
    ):
        if value:
            found[variable] = provided_option(value, option) or ""
    if "config/ridgeline/ridgeline.json" in files:
        found["XDG_CONFIG_HOME"] = f"{HERE}/config"
    return found


# The application --------------------------------------------------------------------------------------------


def _application(settings: RunSettings, files: dict[str, str | bytes]) -> tuple[str, tuple[str, ...]]:
    """Put the user's code into the payload: APP as it is on the node, and the folders of its modules."""
    from ridgeline.engine.process.user_files import files_of
    from ridgeline.engine.process.user_modules import user_sources

    folders, found = files_of(user_sources())
    for place, source, _, _ in found:
        files[f"code/{place}"] = source
    target = settings.written.target
    file, colon, name = (target, "", "") if Path(target).is_file() else target.rpartition(":")
    path = Path(file)
    if not path.is_file():
        return target, _roots(folders)  # a module
    if is_package(path.name):
        files[f"files/{path.name}"] = str(path)
        return f"{HERE}/files/{path.name}{colon}{name}", _roots(folders)
    if form_of(path.name):
        from ridgeline.settings.documents import read_with_includes

        files[f"specification/{path.stem}.json"] = _json(read_with_includes(path)[0])
        return f"{HERE}/specification/{path.stem}.json", _roots(folders)
    parent = str(path.resolve().parent)
    folders = folders if parent in folders else [*folders, parent]
    place = f"code/{folders.index(parent)}/{path.name}"
    files[place] = str(path)  # also where it would be too large to travel with the others
    return f"{HERE}/{place}{colon}{name}", _roots(folders)


def _roots(folders: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{HERE}/code/{number}" for number in range(len(folders)))


__all__ = ["DRIVER", "HERE", "Driver", "check_files", "write"]
