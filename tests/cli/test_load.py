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
@pytest.mark.parametrize(
    ("text", "name", "wanted"),
    [
        ('anything = APP("first")', "", "first"),
        ('a = b = APP("first")', "", "first"),
        ('application = APP("first")', "", "first"),
        ('def application():\n    return APP("made")\napp = APP("first")', "", "made"),
        ('first = APP("a")\nsecond = APP("b")', ":second", "b"),
        ('first = APP("a")\ndef third():\n    return APP("c")', ":third", "c"),
    ],
)
def test_the_application_of_a_file(write_app, text, name, wanted):
    assert load_application(write_app("one.py", text) + name).name == wanted


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


@pytest.mark.parametrize(
    ("text", "target", "reason"),
    [
        ('first = APP("a")\nsecond = APP("b")', "x.py", "2 applications; name one of them: `x.py:first`,"),
        ('first = APP("a")', "x.py:frist", "`x.py` has no `frist`; did you mean `first`?"),
        ("number = 3", "x.py:number", "`x.py:number` is no application; got int"),
        ("", "x.py", "`x.py` has no application; make one at module level"),
        ("def application():\n    return 3", "x.py", "`application` of `x.py` must return an Application"),
        ("", "y.py", "there is no file `y.py`; did you mean `x.py`?"),
        ("", "x", "`x` names no application; did you mean `x.py`?"),
        ("", "--mater", "unknown option `--mater`; did you mean `--master`?"),
        ("", "no_such.module:app", "there is no module `no_such.module` in this folder or among what"),
        ("import no_such.part", "x.py", "install the package that has `no_such`, or put its folder on"),
        ("sys.exit(3)", "x.py", 'put what a script does below `if __name__ == "__main__":`'),
        ("", "folder", "`folder` is a folder; give one of its files: `folder/app.py`"),
        ("", "data.csv", "`data.csv` is no Python file; give a file (`app.py`)"),
        ('app = APP("a")', "x.py --output x", "only a function `application(...)` takes options"),
        ('app = APP("a")', "x.py --window=3", "unknown option `--window`; did you mean `--windows`?"),
    ],
)
def test_what_is_no_application(write_app, tmp_path, text, target, reason):
    write_app("x.py", text)
    write_app("folder/app.py", "")
    (tmp_path / "data.csv").write_text("a,b")
    assert reason in str(refused(*target.split()))


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


def test_a_syntax_error(tmp_path):
    (tmp_path / "broken.py").write_text("x = 1\ny = = 2\n")
    error = refused("broken.py")
    assert f"invalid syntax, line 2 of `{tmp_path / 'broken.py'}`; fix the file" in str(error)
    assert error.details == "y = = 2\n    ^"


def test_an_exception_shows_the_users_frames_only(write_app, tmp_path):
    error = refused(write_app("raises.py", "def inner():\n    raise KeyError('price')\ninner()"))
    assert str(error) == "`raises.py` failed while it was loaded: KeyError: 'price'; fix it, then try again"
    assert "raise KeyError('price')" in error.details
    assert f'File "{tmp_path / "raises.py"}"' in error.details
    assert "importlib" not in error.details
    assert "raises" not in sys.modules


def test_errors_of_ridgeline_pass(write_app):
    raises = 'def application():\n    raise ValidationError("a", [])'
    text = f"from ridgeline.api.errors import ValidationError\n{raises}"
    with pytest.raises(ValidationError):
        load_application(write_app("invalid.py", text))


def test_options_become_arguments(write_app):
    text = (
        "from pathlib import Path\ndef application(output: Path | None = None, days: int = 1):\n    "
        "return APP(f'{output!r} {days!r}')"
    )
    write_app("options.py", text)
    assert load_application("options.py").name == "None 1"
    assert load_application("options.py", ["--output", "out", "--days=7"]).name == "PosixPath('out') 7"
