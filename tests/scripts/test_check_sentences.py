"""scripts/check_sentences.py finds sentences of more than 25 words, and nothing else."""

import pytest

from support import scripts


@pytest.fixture(scope="module")
def script():
    return scripts.script("check_sentences")


def words(count):
    """A sentence of so many words."""
    return "A " + "word " * (count - 2) + "here."


HALF = "a word " * 6
LONG = words(30)
MODULE = f"""'''{LONG}'''
WIDTH = 1
'''{LONG}'''
class A:
    '''{LONG}'''

    def b(self):
        '''Short.

        {LONG}
        '''
        return "{LONG}"  # {LONG}
"""
FUNCTION = f"""def f():
    '''Short.

    Args:
        a: {HALF}
        b: {HALF}

    >>> f()
    '{words(40)}'
    '''
"""


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("page.md", words(25), []),
        ("page.md", words(26), [1]),
        ("page.md", f"{words(20)} {words(20)} ({words(20)}) `code` goes on.", []),
        ("page.md", f"{HALF}\n{HALF}", []),
        ("page.md", f"{HALF}\n{HALF}{HALF}", [1]),
        ("page.md", f"{HALF}\n\n{HALF}\n\n{HALF}", []),
        ("page.md", f"- {HALF}\n- {HALF}\n1. {HALF}", []),
        ("page.md", f"| {LONG} |", []),
        ("page.md", f"## {LONG}", []),
        ("page.md", f"<!-- {LONG} -->", []),
        ("page.md", f"```\n{LONG}\n```", []),
        ("page.md", f"Run `{'a ' * 40}` now.", []),
        ("page.md", f"Widths are {'1, ' * 40}2.", []),
        ("page.md", f"See [it](https://example.org/{'a/' * 40}).", []),
        ("module.py", MODULE, [1, 3, 5, 10]),
        ("module.py", FUNCTION, []),
    ],
)
def test_a_sentence_may_have_25_words_but_not_26(script, tmp_path, name, text, lines):
    path = tmp_path / name
    path.write_text(text)
    found = [int(line.removeprefix(f"{path}:").split(":")[0]) for line in script.long_sentences(path)]
    assert sorted(found) == lines


def test_the_script_fails_and_names_the_line_the_count_and_the_opening(script, tmp_path, monkeypatch, capsys):
    for name in ("README.md", "CONTRIBUTING.md", "src/module.py", "docs/page.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('"""Short."""' if path.suffix == ".py" else "Short.")
    monkeypatch.chdir(tmp_path)
    assert (script.main(), capsys.readouterr().out) == (0, "")
    path.write_text(f"# A page\n\nShort. {words(26)}\n")
    assert script.main() == 1
    said = "docs/page.md:3: a sentence has 26 words (`A word word word word word ...`)"
    assert capsys.readouterr().out.startswith(said)
