"""The answer in words: how an application does."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict


class SentencePartAnswer(TypedDict):
    """A piece of a sentence."""

    text: Annotated[str, "The piece; all pieces joined are the sentence."]
    about: Annotated[
        dict[str, str] | None,
        "Where the page shows what it is made of: `view` and its parameters; null for words between.",
    ]


class SentenceAnswer(TypedDict):
    """How an application does, in a sentence."""

    text: Annotated[str, "The sentence, such as `keeping up: a window takes 97 ms, 42% of it parse`."]
    state: Annotated[str, "`starting`, `ok`, `behind`, `stuck`, `failed` or `ended`."]
    parts: Annotated[list[SentencePartAnswer], "The pieces of the sentence."]
