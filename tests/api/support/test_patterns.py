import pytest

from ridgeline.api.support.patterns import Pattern


def test_the_whole_text_must_match():
    assert Pattern("sum.*").matches("sum_of_trades")
    assert not Pattern("sum").matches("sum_of_trades")
    assert Pattern("a|b").matches("b")
    assert not Pattern("a|b").matches("ab")


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(.*)*x", "(a?){50}a{50}b"])
def test_an_expression_that_would_backtrack_takes_no_time(text):
    assert not Pattern(text).matches("a" * 9_999)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(?=a)b", "look-around"),
        (r"(a)\1", "backreferences are not supported"),
        ("(", "unclosed group"),
        ("(a{1000}){1000}", "size limit"),
        ("a" * 1_001, "1,001 characters"),
    ],
)
def test_what_is_not_supported_says_why(text, reason):
    with pytest.raises(ValueError, match=reason):
        Pattern(text)


def test_nothing_matches_a_text_that_is_too_long():
    assert not Pattern(".*").matches("a" * 10_001)
