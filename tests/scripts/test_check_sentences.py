"""scripts/check_sentences.py finds sentences of more than 25 words, and nothing else."""

import pytest

from support import scripts


@pytest.fixture(scope="module")
def script():
    return scripts.script("check_sentences")


@pytest.fixture
def found(script, tmp_path):
    """`found(name, text)`: the lines of the sentences of a file that are too long."""

    def check(name, text):
        path = tmp_path / name
        path.write_text(text)
        return [int(line.removeprefix(f"{path}:").split(":")[0]) for line in script.long_sentences(path)]

    return check


def words(count):
    """A sentence of so many words."""
    return "A " + "word " * (count - 2) + "here."


def test_a_sentence_may_have_25_words_but_not_26(found):
    assert found("page.md", words(25)) == []
    assert found("page.md", words(26)) == [1]


def test_the_report_names_the_line_the_count_and_the_opening(script, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# A page\n\nShort. {words(30)}\n")
    assert list(script.long_sentences(page)) == [
        f"{page}:3: a sentence has 30 words (`A word word word word word ...`)"
    ]


def test_a_sentence_ends_at_its_mark_and_at_its_paragraph(found):
    short = words(20)
    assert found("page.md", f"{short} {short} ({short}) `code` goes on.") == []
    half = "a word " * 6
    assert found("page.md", f"{half}\n{half}") == []
    assert found("page.md", f"{half}\n{half}{half}") == [1]
    assert found("page.md", f"{half}\n\n{half}\n\n{half}") == []
    assert found("page.md", f"- {half}\n- {half}\n1. {half}") == []


@pytest.mark.parametrize(
    "text",
    [
        "| " + words(30) + " |",
        "## " + words(30),
        "<!-- " + words(30) + " -->",
        "```\n" + words(30) + "\n```",
        "Run `" + "a " * 40 + "` now.",
        "Widths are " + "1, " * 40 + "2.",
        "See [it](https://example.org/" + "a/" * 40 + ").",
    ],
    ids=["table", "heading", "comment", "fence", "code", "numbers", "address"],
)
def test_what_is_no_prose_does_not_count(found, text):
    assert found("page.md", text) == []


def test_docstrings_of_modules_classes_functions_and_attributes_are_read(found):
    long = words(30)
    source = (
        f'"""{long}"""\n'
        f'WIDTH = 1\n"""{long}"""\n'
        f'class A:\n    """{long}"""\n\n    def b(self):\n        """Short.\n\n        {long}\n        """\n'
        f'        return "{long}"  # {long}\n'
    )
    assert sorted(found("module.py", source)) == [1, 3, 5, 10]


def test_examples_in_docstrings_and_entries_of_sections_stand_alone(found):
    half = "a word " * 8
    entries = f"    Args:\n        a: {half}\n        b: {half}\n"
    example = f"    >>> f()\n    '{words(40)}'\n"
    assert found("module.py", f'def f():\n    """Short.\n\n{entries}\n{example}    """\n') == []


def test_the_script_fails_if_there_is_such_a_sentence(script, tmp_path, monkeypatch, capsys):
    for name in ("README.md", "CONTRIBUTING.md", "src/module.py", "docs/page.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('"""Short."""' if path.suffix == ".py" else "Short.")
    monkeypatch.chdir(tmp_path)
    assert (script.main(), capsys.readouterr().out) == (0, "")
    path.write_text(words(26))
    assert script.main() == 1
    assert capsys.readouterr().out == (
        "docs/page.md:1: a sentence has 26 words (`A word word word word word ...`); "
        "split it so that none has more than 25\n"
    )


def test_names_and_pages_have_a_limit_too(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("src/module.py", "docs/page.md", "docs/cli.md", "README.md", "CONTRIBUTING.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('"""Short."""' if name.endswith(".py") else "Somebody reads it.")
    monkeypatch.setattr(script, "OURS", {**dict.fromkeys(script.OURS, (0, 0)), "somebody": (0, 2)})
    assert script.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "`somebody` is 3 times in pages, at most 2; use the field's word:",
        "  CONTRIBUTING.md:1",
        "  README.md:1",
        "  docs/page.md:1",
    ]
    (tmp_path / "README.md").write_text("Short.")
    monkeypatch.setattr(script, "MOST_NAMES", 2)
    (tmp_path / "src/module.py").write_text(
        "class Told:\n    def hears(self, heard_by):\n        shoulder = 1\n"
    )
    assert script.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "3 names have a word of ours, at most 2; use the field's word:",
        "  src/module.py:1: Told",
        "  src/module.py:2: hears",
        "  src/module.py:2: heard_by",
    ]
