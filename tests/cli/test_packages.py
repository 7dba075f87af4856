"""Applications in packages, shown without running code of theirs, and in specifications."""

import json
import tempfile

import pytest

from ridgeline.cli import packages
from ridgeline.engine.process import shipped_packages
from ridgeline.packages.unpacked import UnpackedPackage
from support.packages.wheels import FILES, build_shop, write_wheel


@pytest.fixture(autouse=True)
def _own_process(tmp_path, monkeypatch):
    """What a test uses is unpacked in its own folder, and forgotten."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(shipped_packages, "_here", {})
    monkeypatch.setattr(UnpackedPackage, "__del__", UnpackedPackage.close, raising=False)
    yield
    packages._in_use.cache_clear()


@pytest.mark.guide("002", "Running an application")
def test_applications_and_what_a_package_is(ridgeline_command, tmp_path):
    own = "from ridgeline import Operator as Base\nclass _Any(Base): pass\nclass Own(_Any):\n  'Does this.'"
    shop = build_shop(tmp_path, **{"shop/own.py": own})
    listed = ridgeline_command("library", "this", "--from", shop).stdout
    assert listed == "shop.own.Own  Does this\n"
    shown = ridgeline_command("get-package-info", shop).stdout
    assert shown.startswith("shop 1.2: Turnover of a shop in euros\n")
    assert "\n  ridgeline>=0.1: met, " in shown
    assert "  turnover: shop.turnover:application\n" in shown
    info = json.loads(ridgeline_command("get-package-info", shop, "--json").stdout)
    where = {"orders": "shop:orders.yaml", "turnover": "shop.turnover:application"}
    assert {one["name"]: one["from"] for one in info["applications"]} == where
    assert info["configurationSets"] == ["defaults", "production"]
    assert (len(info["sha256"]), info["misfits"]) == (64, [])


@pytest.mark.guide("002", "Creating New Project")
def test_an_application_of_a_package_is_used_as_any_other(ridgeline_command, tmp_path):
    shop = build_shop(tmp_path)
    done = ridgeline_command("validate", f"{shop}:turnover")
    assert (done.stdout, done.exit_code) == ("application turnover is valid: 3 operators, 2 streams\n", 0)
    assert "application orders is valid: 2" in ridgeline_command("validate", f"{shop}:orders").stdout
    planned = ridgeline_command("plan", f"{shop}:turnover", "--output", "elsewhere", "--json").stdout
    assert json.loads(planned)["application"] == "turnover"


def test_a_package_does_not_say_how_it_is_run(ridgeline_command, tmp_path):
    shop = build_shop(tmp_path, **{"shop/defaults.yaml": "run: {master: yarn}"})
    done = ridgeline_command("validate", f"{shop}:turnover")
    assert (done.exit_code, "`run.master`" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["{shop}"], "package `shop` 1.2 has 2 applications; give one of `orders`, `turnover`: `shop-1.2"),
        (["{shop}:turnovr"], "has no application `turnovr`; did you mean `turnover`?"),
        (["app.py", "--conf-set", "x"], "`--conf-set x` names a part of a package, which `app.py` is not"),
        (["gone.whl"], "there is no file `gone.whl`; "),
        (["fails.zip"], "`fails.zip, casino.app` failed while it was loaded: ZeroDivisionError"),
        (["lacks.zip"], "`lacks.zip, casino.app` has no `application`; "),
    ],
)
def test_what_is_wrong_is_said(ridgeline_command, tmp_path, words, expected):
    shop = build_shop(tmp_path)
    (tmp_path / "app.py").write_text("from ridgeline import Application\napp = Application('a')\n")
    for name, text in (("fails", "1 / 0"), ("lacks", "")):
        made = write_wheel(tmp_path, {**FILES, "casino/app.py": text}, suffix="zip")
        made.rename(tmp_path / f"{name}.zip")
    done = ridgeline_command("validate", *[word.format(shop=shop) for word in words])
    assert done.exit_code == 2
    assert expected in done.stderr


def test_a_list_of_a_file_that_is_no_package(ridgeline_command, tmp_path):
    (tmp_path / "app.py").write_text("")
    done = ridgeline_command("get-package-info", "app.py")
    assert (done.exit_code, "`app.py` is no package; give a wheel" in done.stderr) == (2, True)
    (tmp_path / "app.whl").write_text("")
    assert "package `app.whl` is no zip file" in ridgeline_command("get-package-info", "app.whl").stderr


# Specifications on the command line -------------------------------------------------------------------------


OPERATORS = """
from ridgeline import InputOperator, InputPort, Operator, OutputPort


class Numbers(InputOperator):
    output = OutputPort(object)
    count: int = 3


class Print(Operator):
    data = InputPort(object)

    @data.process
    def show(self, number):
        print(number)
"""
YAML = """
application: numbers
operators:
  numbers: {class: specified_here.Numbers, properties: {count: 5}}
  print: {class: specified_here.Print}
streams:
  numbers: {from: numbers.output, to: print.data}
"""


@pytest.fixture
def specification(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "specified_here.py").write_text(OPERATORS)
    (tmp_path / "sub" / "app.yaml").write_text(YAML)
    return "sub/app.yaml"


@pytest.mark.guide("002", "JSON File DAG Specification")
@pytest.mark.guide("002", "Properties File DAG Specification")
def test_what_takes_an_application_takes_a_specification(ridgeline_command, specification):
    assert ridgeline_command("validate", specification).stdout == (
        "application numbers is valid: 2 operators, 1 stream\n"
    )
    before = json.loads(ridgeline_command("plan", specification, "--json").stdout)
    for name in ("sub/b.json", "sub/b.yml"):
        written = ridgeline_command("plan", specification, "--spec", name)
        assert written.stdout == f"application numbers is in {name}\n"
        assert json.loads(ridgeline_command("plan", name, "--json").stdout) == before


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["plan", "sub/app.yaml", "--spec", "a.xml"],
            "`--spec a.xml` names no form that is written; end it in",
        ),
        (["plan", "sub/app.yaml", "--spec", "no/a.json"], "`no/a.json` cannot be written: No such file"),
        (["validate", "sub/app.yaml:name"], "is a specification, which has one application"),
        (["validate", "sub/app.yaml", "--number", "5"], "unknown option `--number`"),
        (["validate", "sub/ap.yaml"], "there is no file `sub/ap.yaml`; did you mean `sub/app.yaml`?"),
        (["validate", "none.json"], "there is no file `none.json`; give a file"),
    ],
)
def test_what_the_command_refuses(ridgeline_command, specification, words, text):
    result = ridgeline_command(*words)
    assert result.exit_code == 2
    assert text in result.stderr
