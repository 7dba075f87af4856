"""The start of a driver in the pod that Spark makes for it: it unpacks the payload, then runs it."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from ridgeline.cli.cluster.driver import PAYLOAD, prepare, unpacked
from ridgeline.cli.cluster.payload import HERE

_PROPERTIES = "--properties-file"
_ADDRESS = "SPARK_DRIVER_BIND_ADDRESS"
"""The variable in which Spark says the address of the pod."""
_DECIDED = frozenset({"spark.app.name", "spark.master", "spark.submit.deployMode", "spark.submit.pyFiles"})
"""Settings of the submission that are not those of a driver, or that words of the command say."""


def main() -> None:
    """Run the application that was submitted, as `ridgeline run` does, with the words of Spark's pod."""
    words = sys.argv[1:]
    if _PROPERTIES not in words:
        sys.exit(
            "the words of a driver's pod are missing; `ridgeline submit --deploy-mode cluster` makes one"
        )
    settings = _settings(Path(words[words.index(_PROPERTIES) + 1]))
    secret = Path(words[-1].removeprefix("local://")).parent
    place, address = settings.get("spark.kubernetes.namespace", "default"), os.environ.get(_ADDRESS, "")
    os.chdir(tempfile.mkdtemp(prefix="ridgeline-driver-"))
    driver = unpacked(secret / PAYLOAD, Path(HERE))
    prepare(driver, f"{place}:{settings['spark.kubernetes.driver.pod.name']}", address)
    conf = {key: value for key, value in settings.items() if key not in _DECIDED}
    if address:
        conf["spark.driver.bindAddress"] = address
    given = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    service = settings.get("spark.driver.host", "")
    named = ("--allow-host", service) if service else ()
    own = ("--", *driver.own) if driver.own else ()
    where = ("--store", driver.store, "--store-name", driver.name, "--master", settings["spark.master"])
    sys.argv = [
        "ridgeline",
        "run",
        driver.target,
        *where,
        *given,
        *driver.words,
        *driver.resume,
        *named,
        *own,
    ]
    from ridgeline.cli.main import main as command

    command()


def _settings(path: Path) -> dict[str, str]:
    """Spark's settings in the pod's file of properties."""
    import javaproperties

    return dict(javaproperties.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
