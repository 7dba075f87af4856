"""The command that is printed at a run's end, and errors of options, show no secret."""

from __future__ import annotations

import pytest

from ridgeline.cli.errors import CommandError
from ridgeline.cli.load import application_arguments
from ridgeline.cli.options import properties
from ridgeline.cli.settings import RunSettings

SECRET = "hunter2-Zq7"


def test_the_command_that_goes_on_shows_no_secret() -> None:
    command = RunSettings.of(
        "app.py",
        conf=[f"spark.hadoop.fs.s3a.secret.key={SECRET}", "spark.executor.memory=4g"],
        properties=[
            f"rates.password={SECRET}",
            f"rates.options.access.key={SECRET}",
            f"rates.url=redis://:{SECRET}@cache",
            "rates.n=3",
        ],
        own=[
            "--api-key",
            SECRET,
            f"--token={SECRET}",
            "--partition-key",
            "symbol",
            "--url",
            f"https://h/?sig={SECRET}&x=1",
        ],
    ).command("state")
    assert SECRET not in command
    for shown in (
        "spark.executor.memory=4g",
        "rates.n=3",
        "--partition-key symbol",
        "rates.password=***",
        "--api-key '***'",
        "'--token=***'",
    ):
        assert shown in command


@pytest.mark.parametrize("text", [f"password={SECRET}", f"token:{SECRET}"])
def test_what_is_no_assignment_is_echoed_without_its_secret(text: str) -> None:
    def settings(texts: list[str]) -> object:
        return RunSettings.of("app.py", conf=texts)

    for read in (properties, settings):
        if read is settings and "=" in text:
            continue
        with pytest.raises(CommandError) as caught:
            read([text])
        assert SECRET not in str(caught.value)


def test_a_value_that_an_option_does_not_take_is_not_echoed() -> None:
    def application(password: int = 0) -> None:
        pass

    with pytest.raises(CommandError, match=r"`--password` does not take `\*\*\*`"):
        application_arguments("app.py", application, ["--password", SECRET])
