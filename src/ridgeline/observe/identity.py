"""The user, the host and the version of a run."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import TypedDict

from ridgeline.api.support.masking import mask_text

_NONE: Mapping[str, str] = {}


class RunInfo(TypedDict):
    """The facts of a run in the event `ApplicationPlanned`, beside its plan.

    `user`: who started it. `host`: where STRAM runs. `version`: of Ridgeline. `master`: Spark's, or `in
    process`. `checkpoint`: the folder's URI, without secrets. `properties_kept`: the properties of the run
    before that this one keeps.
    """

    user: str
    host: str
    version: str
    master: str
    checkpoint: str
    properties_kept: Mapping[str, str]


@cache
def own_host() -> str:
    """The name of this host, the same that its containers report."""
    return socket.gethostname()


def run_info(master: str, checkpoint: str, properties_kept: Mapping[str, str] = _NONE) -> RunInfo:
    """Collect what is known of a run on this host. Secrets in the checkpoint's URI are masked."""
    return RunInfo(
        user=_user(),
        host=own_host(),
        version=version(),
        master=master,
        checkpoint=mask_text(checkpoint),
        properties_kept=dict(properties_kept),
    )


@cache
def version(package: str = "ridgeline") -> str:
    """The version of an installed package; `(not installed)` for one that is only on the path."""
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return "(not installed)"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container image often has a number for a user and no name
        return "unknown"
