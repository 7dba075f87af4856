"""A text of pieces, of which some say where the page shows what they are made of."""

from __future__ import annotations

from ridgeline.api.support.masking import printable
from ridgeline.measure.answers.sentence import SentencePartAnswer

_LONGEST = 160


class Phrase:
    """Pieces of a text, in their order.

    Example:
        >>> phrase = Phrase().say("a window takes ").show("97 ms", "time", window="12")
        >>> phrase.text, phrase.parts[1]["about"]
        ('a window takes 97 ms', {'view': 'time', 'window': '12'})
    """

    def __init__(self) -> None:
        self.parts: list[SentencePartAnswer] = []

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(part["text"] for part in self.parts)

    def say(self, text: str) -> Phrase:
        """Add words that are made of no figure."""
        if self.parts and self.parts[-1]["about"] is None:
            self.parts[-1] = {"text": self.parts[-1]["text"] + text, "about": None}
        elif text:
            self.parts.append({"text": text, "about": None})
        return self

    def show(self, text: str, view: str, **parameters: str) -> Phrase:
        """Add a piece that a view of the page shows, with the parameters of its address."""
        self.parts.append({"text": text, "about": {"view": view, **parameters}})
        return self

    def add(self, other: Phrase) -> Phrase:
        """Add all pieces of another text."""
        for part in other.parts:
            if part["about"] is None:
                self.say(part["text"])
            else:
                self.parts.append(part)
        return self


def joined(phrases: list[Phrase], between: str) -> Phrase:
    """One text of several, with the same words between them."""
    whole = Phrase()
    for number, phrase in enumerate(phrases):
        whole.say(between if number else "").add(phrase)
    return whole


def one_line(text: str) -> str:
    r"""The first line of a text of others, without what would disturb a terminal; a long one is cut.

    >>> one_line("no space left\nat line 3")
    'no space left'
    """
    line = printable(text.strip().partition("\n")[0])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."
