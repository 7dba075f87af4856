"""Texts that users give: patterns, durations, paths."""

import math
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from ridgeline import RidgelineError
from ridgeline.api.support.duration import parse_duration
from ridgeline.api.support.files import is_local, local_path, resolve
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


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("200ms", 0.2),
        ("5m", 300.0),
        ("1h", 3600.0),
        ("0", 0.0),
        (0, 0.0),
        (0.5, 0.5),
        (" 1.5 s ", 1.5),
        ("0.25", 0.25),
    ],
)
def test_durations(value: Any, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize(
    "value", ["", "s", "5 parsecs", "-1s", "1s1", "1e3s", None, True, math.nan, math.inf, [1], "1 y"]
)
def test_no_durations(value: Any) -> None:
    with pytest.raises(
        ValueError,
        match='is not a duration; give a number of seconds, or a text such as "200ms", "1s", "5m" or "1h"',
    ):
        parse_duration(value)


def test_negative() -> None:
    with pytest.raises(ValueError, match=r"-0\.5 is less than 0; give a number of seconds"):
        parse_duration(-0.5)


@pytest.mark.parametrize(
    ("uri", "local"),
    [
        ("out", True),
        ("/tmp/out", True),
        ("file:/tmp", True),
        ("s3a://b/k", False),
    ],
)
def test_paths_and_file_uris_are_local(uri, local):
    assert is_local(uri) is local


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b%20c", "/a/b c"),
        ("/a/b%20c", "/a/b%20c"),
        ("/a/../b", "/b"),
        ("~/x", f"{Path.home()}/x"),
    ],
)
def test_local_paths_are_absolute(uri, path):
    assert local_path(uri) == path


def test_relative_paths_are_relative_to_the_folder_one_is_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert local_path("out") == f"{tmp_path}/out"
    filesystem, path = resolve("out")
    assert isinstance(filesystem, pyarrow.fs.LocalFileSystem)
    assert path == f"{tmp_path}/out"


def test_an_unknown_scheme_is_reported():
    remedy = "give a path, or a URI such as `file:`, `s3a:` or `hdfs:`"
    with pytest.raises(RidgelineError, match=rf"^`nowhere://a/b` cannot be reached: .*; {remedy}"):
        resolve("nowhere://a/b")
