"""Objects of Kubernetes, by the client that Spark has: it finds server, user and rights as Spark does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, cast

from ridgeline.api.errors import RidgelineError

if TYPE_CHECKING:
    from pyspark import SparkConf

_FACTORY = "org.apache.spark.deploy.k8s.SparkKubernetesClientFactory"
_RIGHTS = "spark.kubernetes.authenticate.submission"
_NAMESPACE = "spark.kubernetes.namespace"
_LONGEST = 500
_MISSING = 404
_ANSWER = re.compile(r"Message: (.*?)\.? Received status")


class KubernetesApi:
    """The API server that a master `k8s://...` names, and a namespace there; `close` ends its Java process.

    `settings`: of Spark; those of its own files count, too. `log`: where Java prints. Raises RidgelineError
    if Java does not start.
    """

    def __init__(self, master: str, settings: Mapping[str, str], log: IO[bytes]) -> None:
        """Start the Java process, which takes a second or two."""
        from py4j.protocol import Py4JError
        from pyspark import SparkConf, java_gateway

        from ridgeline.engine.spark.java import find_java

        find_java()
        gateway: Any = java_gateway
        shown = SparkConf(loadDefaults=False).setAll([("spark.ui.enabled", "false")])
        try:
            self._gateway = gateway.launch_gateway(shown, {"stdout": log, "stderr": log})
        except Exception as error:
            raise RidgelineError(
                f"Spark's client of Kubernetes does not start: {error}; see `ridgeline doctor`"
            ) from error
        try:
            java = self._gateway.jvm
            conf = java.org.apache.spark.SparkConf(True)  # noqa: FBT003  with the settings of Spark's files
            for name, value in settings.items():
                conf.set(name, value)
            self.namespace = str(conf.get(_NAMESPACE, "default"))
            self._client = self._client_of(java, master, conf)
        except Py4JError as error:
            self.close()
            raise RidgelineError(
                f"Kubernetes at `{master}` cannot be asked: {_said(error)}; see that `--master` is right"
            ) from None

    def _client_of(self, java: Any, master: str, conf: SparkConf) -> Any:
        """Spark's client for submissions. Raises Py4JError."""
        server = str(java.org.apache.spark.util.Utils.checkAndGetK8sMasterUrl(master)).removeprefix("k8s://")
        kinds = java.java.lang.Class.forName(f"{_FACTORY}$ClientType$").getField("MODULE$").get(None)
        option = java.scala.Option
        factory = java.org.apache.spark.deploy.k8s.SparkKubernetesClientFactory
        return factory.createKubernetesClient(
            server, option.apply(self.namespace), _RIGHTS, kinds.Submission(), conf, option.empty()
        )

    def get(self, path: str) -> dict[str, Any] | None:
        """An object of the namespace, or a list of them; None if it is not there. Raises RidgelineError."""
        return self._ask("GET", path)

    def post(self, path: str, one: Mapping[str, Any]) -> dict[str, Any] | None:
        """Make an object, and return it as it was made. Raises RidgelineError."""
        return self._ask("POST", path, one)

    def put(self, path: str, one: Mapping[str, Any]) -> dict[str, Any] | None:
        """Replace an object. Raises RidgelineError."""
        return self._ask("PUT", path, one)

    def delete(self, path: str) -> None:
        """Remove an object, if it is there. Raises RidgelineError."""
        self._ask("DELETE", path)

    def _ask(self, method: str, path: str, one: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """The answer to a request, which `get` and its sisters make; None for what is not there.

        Raises RidgelineError.
        """
        from py4j.protocol import Py4JError

        where = f"/api/v1/namespaces/{self.namespace}/{path}"
        try:
            found = self._client.raw(where, method, None if one is None else json.dumps(one))
        except (Py4JError, OSError) as error:
            if _is_missing(error):
                return None
            what = f"Kubernetes did not answer `{method} {where.partition('?')[0]}`: {_said(error)}"
            raise RidgelineError(
                f"{what}; see that `--master` is right, and that this user may do so"
            ) from None
        return None if found is None else json.loads(str(found))

    def close(self) -> None:
        """End the Java process."""
        with suppress(Exception):
            self._gateway.shutdown()
        process = self._gateway.proc
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()


def _is_missing(error: Exception) -> bool:
    """Whether the API server has answered that there is no such object."""
    with suppress(Exception):  # of another kind, which has no code
        return int(cast("Any", error).java_exception.getCode()) == _MISSING
    return False


def _said(error: Exception) -> str:
    """The reason that Java gives for an error, in one line and without secrets.

    It is the API server's own answer, else that of the innermost cause.
    """
    from ridgeline.api.support.masking import mask_text

    java, text = getattr(error, "java_exception", None), str(error)
    while java is not None:
        text = str(java.getMessage() or java.toString())
        if (answer := _ANSWER.search(text)) is not None:
            text = answer[1]
            break
        java = java.getCause()
    return mask_text(text.strip().splitlines()[0] if text.strip() else type(error).__name__)[:_LONGEST]


__all__ = ["KubernetesApi"]
