import stat

import pytest

from ridgeline import RidgelineError
from ridgeline.engine.spark import java
from ridgeline.engine.spark.java import HeldOutput, why


def fake_java(folder, version):
    """A `java` that says it is of some version."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """Neither Java nor the extra."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _name: None)


def test_no_java_says_what_to_install():
    with pytest.raises(RidgelineError) as caught:
        java.find_java()
    assert str(caught.value) == (
        "Spark needs Java 17 or newer; there is no `java` on the PATH and JAVA_HOME is not set; "
        "install one (Debian: "
        "`apt-get install openjdk-17-jre-headless`, macOS: `brew install openjdk@17`), or `pip "
        "install 'ridgeline[jre]'`"
    )


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2"])
def test_an_old_java_is_named(version, tmp_path, monkeypatch):
    program = fake_java(tmp_path / "home" / "bin", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/bin")
    major = version.removeprefix("1.").split(".", maxsplit=1)[0]
    with pytest.raises(RidgelineError, match=rf"; found version {major} at `{program}`; "):
        java.find_java()


def test_a_home_without_java_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RidgelineError, match=r"`JAVA_HOME` is `.*`, which has no working `bin/java`"):
        java.find_java()


def test_a_java_on_the_path_is_enough(tmp_path, monkeypatch):
    fake_java(tmp_path / "bin", "17.0.9")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin")
    java.find_java()


@pytest.mark.parametrize(
    ("printed", "error", "expected"),
    [
        (
            "main ERROR Log4j API could not find a logging provider.\n\tat org.apache.X(X.java:1)\n",
            "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.",
            "Java may not open enough files: main ERROR Log4j API",
        ),
        (
            "",
            "An error occurred while calling X.\n: java.net.BindException: Cannot assign\n\tat x",
            "Java cannot listen on this machine's address: java.net.BindException: Cannot assign",
        ),
        (
            "",
            "An error occurred while calling X.\n: org.apache.SparkException: odd\n\tat x",
            "org.apache.SparkException: odd; check `--master` and `--conf`",
        ),
        (
            "26/01/01 ERROR X: java.io.IOException: No space left on device\n\tat x\n",
            "An error occurred",
            "the disk is full: 26/01/01 ERROR X: java.io.IOException: No space left on device; make room",
        ),
        ("", "", "; check `--master` and `--conf`"),
    ],
)  # fmt: skip
def test_causes_are_found_in_what_java_says(printed, error, expected):
    found = why(RuntimeError(error), printed, "local[*]")
    assert f"Spark did not start on `local[*]`: {expected}" in found
    assert "\n" not in found


def test_what_is_kept_of_a_java_that_starts_is_printed():
    held = HeldOutput()
    lines = [b"WARN fine\n", b"ERROR one\n", b"\tat somewhere\n", b"after it\n"]
    assert [held.hold(line) for line in lines] == [False, True, True, True]
    assert held.release() == b"".join(lines[1:])
    assert not held.hold(b"ERROR later\n")
