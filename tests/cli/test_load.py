import pickle
import sys

import pytest

from ridgeline.api.errors import ValidationError
from ridgeline.cli.errors import CommandError
from ridgeline.cli.load import load_application


def refused(target, *options):
    with pytest.raises(CommandError) as caught:
        load_application(target, options)
    return caught.value


@pytest.mark.guide("002", "Creating New Project")
def test_the_only_application_of_a_file(write_app):
    assert load_application(write_app("one.py", 'anything = APP("first")')).name == "first"


def test_two_names_of_one_application_are_one(write_app):
    assert load_application(write_app("alias.py", 'a = b = APP("first")')).name == "first"


def test_the_function_of_a_file_wins(write_app):
    text = 'def application():\n    return APP("made")\napp = APP("first")'
    assert load_application(write_app("function.py", text)).name == "made"


def test_an_application_beside_a_function_that_is_imported_is_named(write_app):
    write_app("base.py", 'def application():\n    return APP("base")')
    text = 'from base import application\nown = APP("own")'
    assert str(refused(write_app("derived.py", text))) == (
        "`derived.py` has an application and imports a function `application`; "
        "name one of them: `derived.py:own`, `derived.py:application`"
    )
    assert load_application("derived.py:own").name == "own"
    assert load_application("derived.py:application").name == "base"
    assert load_application(write_app("again.py", "from base import application")).name == "base"


def test_a_variable_called_application(write_app):
    assert load_application(write_app("variable.py", 'application = APP("first")')).name == "first"


def test_several_applications_are_named(write_app):
    error = refused(write_app("several.py", 'first = APP("a")\nsecond = APP("b")'))
    assert (
        str(error)
        == "`several.py` has 2 applications; name one of them: `several.py:first`, `several.py:second`"
    )


def test_a_name_in_a_file(write_app):
    write_app("named.py", 'first = APP("a")\nsecond = APP("b")\ndef third():\n    return APP("c")')
    assert load_application("named.py:second").name == "b"
    assert load_application("named.py:third").name == "c"


def test_a_wrong_name_in_a_file(write_app):
    write_app("wrong_name.py", 'first = APP("a")\nnumber = 3')
    assert str(refused("wrong_name.py:frist")) == "`wrong_name.py` has no `frist`; did you mean `first`?"
    expected = (
        "`wrong_name.py:number` is no application; got int; name an Application or a function that "
        "returns one"
    )
    assert str(refused("wrong_name.py:number")) == expected


def test_no_application(write_app):
    assert str(refused(write_app("none.py", ""))) == (
        "`none.py` has no application; make one at module level (`app = Application(...)`) or in a "
        "function `application()` that returns it"
    )


def test_a_function_that_returns_something_else(write_app):
    error = refused(write_app("other.py", "def application():\n    return 3"))
    assert str(error) == "function `application` of `other.py` must return an Application; got int"


def test_no_such_file(write_app):
    write_app("payments.py", "")
    assert str(refused("payment.py")) == "there is no file `payment.py`; did you mean `payments.py`?"
    assert str(refused("payments")) == "`payments` names no application; did you mean `payments.py`?"


def test_a_folder(write_app):
    write_app("folder/app.py", "")
    assert str(refused("folder")) == "`folder` is a folder; give one of its files: `folder/app.py`"


def test_an_option_where_the_application_belongs():
    assert str(refused("--mater")) == "unknown option `--mater`; did you mean `--master`?"


def test_a_file_that_is_no_python(tmp_path):
    (tmp_path / "data.csv").write_text("a,b")
    assert str(refused("data.csv")).startswith("`data.csv` is no Python file; give a file (`app.py`)")


def test_neighbours_can_be_imported_and_classes_pickled(write_app, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "neighbour_of_it.py").write_text('NAME = "from next door"')
    write_app(
        "deep/importer.py", "import neighbour_of_it\nclass Mine:\n    pass\napp = APP(neighbour_of_it.NAME)"
    )
    assert load_application("deep/importer.py").name == "from next door"
    assert type(pickle.loads(pickle.dumps(sys.modules["importer"].Mine()))).__name__ == "Mine"


def test_a_file_named_like_something_else(write_app):
    load_application(write_app("json.py", 'app = APP("a")'))
    assert "APP" in vars(sys.modules["ridgeline_app_json"])
    assert "APP" not in vars(sys.modules["json"])


def test_a_file_whose_name_is_no_identifier(write_app):
    assert load_application(write_app("2nd-try.py", 'app = APP("a")')).name == "a"
    assert "_2nd_try" in sys.modules


def test_a_module(write_app):
    write_app("module_of_it.py", 'app = APP("a")\ndef make():\n    return APP("b")')
    assert load_application("module_of_it:app").name == "a"
    assert load_application("module_of_it:make").name == "b"


def test_no_such_module():
    assert str(refused("no_such.module:app")).startswith(
        "there is no module `no_such.module` in this folder or among what is installed"
    )


def test_a_syntax_error(tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\ny = = 2\n")
    error = refused("broken.py")
    assert (
        str(error)
        == f"`broken.py` cannot be read: invalid syntax, line 2 of `{tmp_path / 'broken.py'}`; mend the file"
    )
    assert error.details == "y = = 2\n    ^"


def test_an_exception_shows_the_users_frames_only(write_app, tmp_path):
    error = refused(write_app("raises.py", "def inner():\n    raise KeyError('price')\ninner()"))
    assert str(error) == "`raises.py` failed while it was loaded: KeyError: 'price'; mend it, then try again"
    assert "raise KeyError('price')" in error.details
    assert f'File "{tmp_path / "raises.py"}"' in error.details
    assert "importlib" not in error.details
    assert "raises" not in sys.modules


def test_a_missing_package(write_app):
    error = refused(write_app("needs.py", "import no_such_package.part"))
    assert str(error).endswith(
        "install the package that has `no_such_package`, or put its folder on PYTHONPATH"
    )


def test_a_script_that_exits(write_app):
    error = refused(write_app("exits.py", "sys.exit(3)"))
    assert 'put what a script does below `if __name__ == "__main__":`' in str(error)


def test_errors_of_ridgeline_pass(write_app):
    text = (
        "from ridgeline.api.errors import ValidationError\n"
        'def application():\n    raise ValidationError("a", [])'
    )
    with pytest.raises(ValidationError):
        load_application(write_app("invalid.py", text))


def test_options_without_a_function(write_app):
    write_app("plain.py", 'app = APP("a")')
    assert str(refused("plain.py", "--output", "x")) == (
        "unknown option `--output`; only a function `application(...)` takes options, which `plain.py` "
        "has not"
    )
    assert str(refused("plain.py", "--window=3")) == "unknown option `--window`; did you mean `--windows`?"


def test_options_become_arguments(write_app):
    text = (
        "from pathlib import Path\ndef application(output: Path | None = None, days: int = 1):\n    "
        "return APP(f'{output!r} {days!r}')"
    )
    write_app("options.py", text)
    assert load_application("options.py").name == "None 1"
    assert load_application("options.py", ["--output", "out", "--days=7"]).name == "PosixPath('out') 7"
