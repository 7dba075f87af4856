"""Configuration of commands: files, the environment, the command line, and `dump-config`."""

import json

import pytest

from support.paths import SUPPORT

TINY = SUPPORT / "cli" / "tiny.py"


@pytest.fixture
def config(tmp_path, monkeypatch):
    """`config(text, name)` writes a file; folders of site and user are the test's own, and are read."""
    monkeypatch.setenv("RIDGELINE_NO_CONFIG", "0")
    monkeypatch.setattr("ridgeline.settings.files._OF_SITE", tmp_path / "etc")
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{tmp_path}/first:{tmp_path}/second:relative")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("RIDGELINE_TRUST", "")

    def write(name, text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o600)
        return file

    return write


def total(ridgeline_command, *words):
    """Where `operator.total.memory_mb` was said, and what it overrode."""
    result = ridgeline_command("dump-config", TINY, "--json", *words)
    assert result.exit_code == 0, result.stderr
    values = {row["key"]: row for row in json.loads(result.stdout)["values"]}
    row = values["operator.total.memory_mb"]
    said = (row, *row["insteadOf"])
    return [str(one["value"]) for one in said], [one["place"] for one in said]


@pytest.mark.guide("002", "Attributes")
def test_every_layer_wins_over_the_one_below(ridgeline_command, config, tmp_path, monkeypatch):
    """One layer after the other is added; each new one wins, and the others are listed below it."""
    values, places = total(ridgeline_command)
    assert (values, places) == (["None"], ["default"])
    steps = [
        ("etc/ridgeline.yaml", "operator:\n  total: {memory_mb: 1}\n"),
        ("second/ridgeline/ridgeline.json", '{"operator.total.memory_mb": 2}'),
        ("first/ridgeline/ridgeline.yaml", "operator.total: {memory_mb: 3}\n"),
        ("home/ridgeline/ridgeline.properties", "operator.total.memory_mb=4\n"),
    ]
    expected = []
    for number, (name, text) in enumerate(steps, 1):
        config(name, text)
        expected.insert(0, str(number))
        values, places = total(ridgeline_command)
        assert values == expected
        assert places[0].startswith(str(tmp_path / name))
    low = config("low.yaml", "operator.*.memory_mb: 5")
    high = config("high.yaml", "operator.tot*.memory_mb: 6")
    words = ["--conf-file", low, "--conf-file", high]
    assert total(ridgeline_command, *words)[0] == ["6", "5", *expected]
    monkeypatch.setenv("RIDGELINE__operator__total__memory_mb", "7")
    assert total(ridgeline_command, *words)[0] == ["7", "6", "5", *expected]
    words += ["--attribute", "total.memory_mb=8"]
    values, places = total(ridgeline_command, *words)
    assert values == ["8", "7", "6", "5", *expected]
    assert places[:4] == ["--attribute", "RIDGELINE__operator__total__memory_mb", str(high), str(low)]
    assert total(ridgeline_command, "--no-config", *words)[0] == ["8", "7", "6", "5"]


def test_options_of_a_run_that_do_not_fit(ridgeline_command, config):
    text = "run: {port: many, log_level: LOUD, mster: x, conf: 5, target: x, conf_file: y}\nrun.windows: 0\n"
    file = config("c.yaml", text)
    result = ridgeline_command("validate", TINY, "--conf-file", file)
    assert result.exit_code == 2
    for text in (
        "`run.port` does not fit",
        "`run.log_level` does not fit",
        "`run.windows` does not fit",
        "`mster` is no option of a run that can be configured",
        "did you mean `master`?",
        "`run.conf` names no setting",
        "`target` is no option of a run",
        "`conf_file` is no option of a run",
    ):
        assert text in result.stderr
    assert "7 faults" in result.stderr


def test_faults_of_files_and_application_come_together(ridgeline_command, config):
    config("etc/ridgeline.yaml", "operator: [")
    config("home/ridgeline/ridgeline.yaml", "operator.x.y: 1")
    config("home/ridgeline/ridgeline.json", "{}")
    result = ridgeline_command("validate", TINY, "-D", "numbers.cuont=1", "--conf-file", "none.yaml")
    for text in ("ridgeline.yaml:", "several configurations", "none.yaml", "did you mean `count`?"):
        assert text in result.stderr
    assert "4 faults" in result.stderr
    assert ridgeline_command("validate", "--help").exit_code == 0


def test_a_file_that_others_could_have_written(ridgeline_command, config):
    file = config("home/ridgeline/ridgeline.yaml", "operator.total.vcores: 1")
    file.chmod(0o666)
    result = ridgeline_command("validate", TINY)
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert "--no-config" in result.stderr
    assert ridgeline_command("validate", TINY, "--no-config").exit_code == 0
    assert ridgeline_command("validate", TINY, "--no-config", "--conf-file", file).exit_code == 0


def test_what_is_not_of_this_application_is_counted(ridgeline_command, config):
    file = config(
        "home/ridgeline/ridgeline.yaml", "operator: {other: {x: 1, y: 2}}\napplication.else.window: 1s\n"
    )
    result = ridgeline_command("dump-config", TINY, "--only-set")
    assert f"3 values of {file} are for nothing in this application; `--json` lists them" in result.stdout
    answer = json.loads(ridgeline_command("dump-config", TINY, "--json").stdout)
    unused = ["application.else.window", "operator.other.x", "operator.other.y"]
    assert answer["unused"] == {str(file): unused}


def test_secrets_are_masked(ridgeline_command, config, tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(
        "from pydantic import SecretStr\n"
        "from ridgeline import Application\n"
        "from ridgeline.operators import ConsoleOutput, RandomEventGenerator\n"
        "class Numbers(RandomEventGenerator):\n"
        "    card: SecretStr\n"
        "    options: dict[str, str] = {}\n"
        "app = Application('shop')\n"
        "numbers = app.add_operator('numbers', Numbers(card='hush1'))\n"
        "out = app.add_operator('out', ConsoleOutput())\n"
        "app.add_stream('numbers', numbers.integer_data, out.input)\n"
    )
    options = "{password: hush3, url: 'x://ann:hush4@db/'}"
    text = f"operator.numbers: {{card: hush2, options: {options}}}\nrun.token: hush5\n"
    file = config("c.yaml", text)
    top = config("d.yaml", "operator.numbers.card: {$env: CARD}\nrun.conf.spark.x.password: hush6")
    monkeypatch.setenv("CARD", "hush7")
    words = ["shop.py", "--conf-file", file, "--conf-file", top, "-D", "numbers.options.password=hush8"]
    for more in ((), ("--json",), ("--only-set",)):
        result = ridgeline_command("dump-config", *words, *more)
        assert result.exit_code == 0, result.stderr
        assert "hush" not in result.stdout
        assert "$env" in result.stdout
