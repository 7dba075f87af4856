"""Where Spark's Java does not start, our words come first: the cause, what was found, the remedy."""

import pytest

from ridgeline.engine.spark.java import HeldOutput, why


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
