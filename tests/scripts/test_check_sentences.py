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
