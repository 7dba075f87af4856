"""`ridgeline query`, against an application that runs in this process."""

import pytest

from ridgeline.service import registry
from support.service.living import living

ALL = "select count(*) as n from numbers"


@pytest.fixture
def app():
    with living() as app:
        entry = registry.own_entry(
            "numbers-1", "numbers", app.server.url, token=app.server.write_token, started=1.0, user="ann"
        )
        registration = registry.register(entry)
        yield app
        registration.close()


def names(app):
    return {one.name for one in app.run.plan.logical.operators}


def test_results_are_shown_with_what_they_cost(ridgeline_command, app, wait_until, tmp_path):
    before = names(app)
    file = tmp_path / "rows.csv"
    result = ridgeline_command("query", "numbers", ALL, "--every", "4ms", "--times", 2, "--into", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.count("6 tuples, 1 rows") == 2
    assert file.read_text().split() == ["n", "6", "6"]
    wait_until(lambda: names(app) == before, "the query is removed")


def test_a_file_of_another_kind_is_refused(ridgeline_command, app):
    result = ridgeline_command("query", "numbers", ALL, "--into", "rows.xls")
    assert result.exit_code == 2
    assert ".jsonl" in result.stderr
