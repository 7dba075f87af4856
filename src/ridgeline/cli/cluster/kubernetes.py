"""Submits a driver to Kubernetes: `spark-submit` makes its pod, and a Secret has what must travel there."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support import trust
from ridgeline.api.support.masking import holds_secret
from ridgeline.api.support.secret_names import is_secret
from ridgeline.api.support.secrets.providers import provided_settings
from ridgeline.cli.cluster import kept, payload
from ridgeline.cli.cluster.driver import PAYLOAD
from ridgeline.cli.cluster.submission import PROGRAM, SETTINGS, command, served, stored, write_settings
from ridgeline.cli.cluster.taken import CLOCK, Taken
from ridgeline.cli.errors import CommandError
from ridgeline.engine.spark.kubernetes.client import KubernetesApi

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ridgeline.cli.settings import RunSettings
    from ridgeline.service.store.folder import EntryFolder
    from ridgeline.settings.layers import Layer

MOUNT = "/etc/ridgeline/submitted"
"""Where the driver's pod has the Secret."""
_IMAGE = "spark.kubernetes.container.image"
_MOST_BYTES = 1_000_000
"""A Secret of Kubernetes has 1 MiB at most."""
_VARIABLES = {
    "spark.kubernetes.driverEnv.": "spark.kubernetes.driver.secretKeyRef.",
    "spark.executorEnv.": "spark.kubernetes.executor.secretKeyRef.",
}
"""Settings of variables that pods show, and those that name the place of a secret in their stead."""
_OF_THIS_HOST = frozenset({"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"})
"""Variables that Spark would give to the pod, whose image has its own."""
_LABEL = "ridgeline.submitted"
_ORPHAN_SECONDS = 3600.0
_LONGEST_NAME = 40  # with what follows it is the name of a host, which has 63 characters at most
_PHASE = re.compile(r"phase: (\w+)")
_REASONS = re.compile(r"(?:termination|pending) reason: (\S.*)")
_CODES = re.compile(r"exit code: (\d+)")
_NO_ENTRY_POINT = """\
import sys

sys.exit("the image has another entry point than `deploy/entrypoint.sh`; build it by `deploy/Dockerfile`")
"""


def submit_to_kubernetes(
    folder: EntryFolder, name: str, settings: RunSettings, layers: Sequence[Layer]
) -> OnKubernetes:
    """Hand an application that is loaded to Kubernetes. Raises CommandError, RidgelineError."""
    _check(settings)
    submission = uuid.uuid4().hex
    settings, made = served(stored(settings, name))
    found = folder.read(name)
    last = "" if found is None or found.entry is None else found.entry.submission
    place = kept.make_folder(folder.uri, name, submission, last)
    pod, secret = (f"{_slug(name)}-{submission[:10]}-{what}" for what in ("driver", "submitted"))
    spark = _spark_settings(settings)
    hidden = {key: value for key, value in spark.items() if _is_hidden(key, value)}
    shown = {key: value for key, value in spark.items() if key not in hidden}
    shown |= {"spark.kubernetes.driver.pod.name": pod, f"spark.kubernetes.driver.secrets.{secret}": MOUNT}
    try:
        payload.write(place / PAYLOAD, settings, layers, submission, name, folder.uri, hidden)
        packed = _read(place / PAYLOAD)
        if made:
            kept.keep_token(place, made)
        write_settings(place / SETTINGS, shown)
        log = place / "spark-submit.log"
        with open(log, "xb", opener=trust.private_opener) as out:
            api = KubernetesApi(settings.master, shown, out)
            try:
                _remove_orphans(api, name)
                api.post("secrets", _secret_of(secret, name, packed))
                process = _start(command(place, name, settings.master, f"local://{MOUNT}/{PROGRAM}"), out)
            except BaseException:
                with suppress(RidgelineError):
                    api.delete(f"secrets/{secret}")
                api.close()
                raise
    except OSError as error:
        msg = f"`{place}` cannot be written: {error.strerror or error}; make room there, or set "
        raise RidgelineError(msg + "`RIDGELINE_HOME`") from None
    finally:
        (place / PAYLOAD).unlink(missing_ok=True)
    return OnKubernetes(folder, name, submission, process, log, token=made, api=api, pod=pod, secret=secret)


def _start(words: Sequence[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start `spark-submit`. Raises OSError."""
    environment = {key: value for key, value in os.environ.items() if key not in _OF_THIS_HOST}
    return subprocess.Popen(  # noqa: S603  Spark's own
        words,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment,
    )


def _check(settings: RunSettings) -> None:
    """Refuse what makes no sense for a driver in a pod, or lacks something. Raises CommandError."""
    supervision = settings.supervision
    for option, given in (("--supervise", supervision.supervise), ("--standby", supervision.standby)):
        if given:
            msg = (
                f"`{option}` is for drivers of a host, and Kubernetes starts the pod of a driver by Spark "
                "never again; leave it out and give the same command again once `ridgeline ps` says `dead`, "
                "or install the chart `deploy/helm/ridgeline`, whose driver is started again"
            )
            raise CommandError(msg)
    payload.check_files(settings, "that is gone with the pod", "the pod")
    if settings.cluster.archives is not None:
        msg = "`--archives` comes too late for a driver in a pod; put the environment into the image, and "
        raise CommandError(msg + f"name that by `--conf {_IMAGE}=...`")
    for key in settings.spark:
        start = next((one for one in _VARIABLES if key.startswith(one)), None)
        if start is not None and is_secret(variable := key.removeprefix(start)):
            msg = f"`--conf {key}` would stand in the pod, where all that may look at pods read it; "
            msg += "put it into a Secret of Kubernetes, and give "
            raise CommandError(msg + f"`--conf {_VARIABLES[start]}{variable}=SECRET:KEY`")
    if not any(settings.spark.get(key) for key in (_IMAGE, "spark.kubernetes.driver.container.image")):
        msg = f"a driver in a pod needs an image that has Ridgeline; give `--conf {_IMAGE}=...`: "
        raise CommandError(msg + "`deploy/Dockerfile` makes one")


def _slug(name: str) -> str:
    """The name of an application as names of Kubernetes may have it.

    >>> _slug("Orders_EU.2"), _slug("x" * 60) == "x" * 40
    ('orders-eu-2', True)
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST_NAME].strip("-")


def _is_hidden(key: str, value: str) -> bool:
    """Whether a setting of Spark has a secret: Spark's config map can be read by all that read config maps.

    Those of Spark's own client stay: they are about this side, and Spark masks them.
    """
    return holds_secret(key, value) and not key.startswith("spark.kubernetes.")


def _spark_settings(settings: RunSettings) -> dict[str, str]:
    """Spark's settings, secrets included."""
    follows = {"spark.kubernetes.submission.waitAppCompletion": "true"}
    return {**provided_settings(dict(settings.spark)), **follows}


def _read(path: Path) -> bytes:
    """A payload. Raises RidgelineError for one that no Secret can have."""
    if (size := path.stat().st_size) > _MOST_BYTES:
        raise RidgelineError(
            f"the application and what it needs have {size / 1e6:.1f} MB packed, and a Secret of Kubernetes "
            "has 1 MB at most; install large packages and files in the image, or read them from the store"
        )
    return path.read_bytes()


def _secret_of(secret: str, name: str, packed: bytes) -> dict[str, Any]:
    """The Secret with the payload, as JSON values."""
    data = {PAYLOAD: packed, PROGRAM: _NO_ENTRY_POINT.encode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "labels": {_LABEL: _slug(name)}},
        "type": "Opaque",
        "immutable": True,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _remove_orphans(api: KubernetesApi, name: str) -> None:
    """Remove Secrets of this name that an interrupted command has left: no pod owns them.

    Who may not list Secrets leaves them.
    """
    from datetime import datetime

    with suppress(RidgelineError):
        found = api.get(f"secrets?labelSelector={_LABEL}%3D{_slug(name)}") or {}
        for one in found.get("items", ()):
            made = datetime.fromisoformat(one["metadata"]["creationTimestamp"]).timestamp()
            if "ownerReferences" not in one["metadata"] and CLOCK.wall() - made > _ORPHAN_SECONDS:
                api.delete(f"secrets/{one['metadata']['name']}")


@dataclass(slots=True, kw_only=True)
class OnKubernetes(Taken):
    """A driver in a pod. `pod`, `secret`: their names; `api`: None once nothing is asked any more."""

    api: KubernetesApi | None
    pod: str
    secret: str
    cluster: ClassVar[str] = "Kubernetes"

    def look(self) -> bool:
        """Whether there is its pod, by the output of `spark-submit`. The pod owns the Secret then."""
        if self.api is not None and f"pod name: {self.pod}" in self.said():
            self.cluster_id = f"{self.api.namespace}:{self.pod}"
            with suppress(RidgelineError):  # who may not do so removes the Secret later, or lets it be
                self._own()
        return bool(self.cluster_id)

    def _own(self) -> None:
        """Let Kubernetes remove the Secret together with the pod."""
        api = self.api
        assert api is not None  # noqa: S101  it was taken just now
        pod, secret = api.get(f"pods/{self.pod}"), api.get(f"secrets/{self.secret}")
        if pod is None or secret is None:
            return
        owner = {"apiVersion": "v1", "kind": "Pod", "name": self.pod, "uid": pod["metadata"]["uid"]}
        secret["metadata"]["ownerReferences"] = [owner]
        api.put(f"secrets/{self.secret}", secret)

    def remove_secrets(self, *, is_refused: bool = False) -> None:
        """Remove Spark's settings, and end the client; with `is_refused` the Secret, which no pod has."""
        self.log.with_name(SETTINGS).unlink(missing_ok=True)
        api, self.api = self.api, None
        if api is None:
            return
        try:
            if is_refused or not self.cluster_id:
                with suppress(RidgelineError):
                    if api.get(f"pods/{self.pod}") is None:
                        api.delete(f"secrets/{self.secret}")
        finally:
            api.close()

    def has_failed(self, code: int) -> bool:
        """Whether the pod has failed, was removed, or cannot be followed."""
        phases = _PHASE.findall(self.said())
        return code != 0 or not phases or phases[-1] != "Succeeded"

    def ending_command(self) -> str:
        """That of Kubernetes."""
        namespace, _, pod = self.cluster_id.partition(":")
        return f"kubectl delete pod {pod} -n {namespace}"

    def printed(self) -> str:
        """That of Kubernetes."""
        namespace, _, pod = self.cluster_id.partition(":")
        return f"`kubectl logs {pod} -n {namespace}`"

    def reason(self) -> str:
        """The last state of its container."""
        said = self.said()
        codes, reasons = _CODES.findall(said), _REASONS.findall(said)
        parts = [f"exit code {codes[-1]}"] if codes else []
        return ", ".join([*parts, *(one.strip()[:300] for one in reasons[-1:])])

    def unseen(self) -> str:
        """Why there is no entry: the container waits, or does not reach the store."""
        if waits := self.reason():
            return f"; its container waits: {waits}"
        return "; it has no entry in the store: does the pod reach that?"


__all__ = ["MOUNT", "OnKubernetes", "submit_to_kubernetes"]
