"""Dialogs of the screen: a question, and the choice of a property with its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option


class Confirm(ModalScreen[bool]):
    """Asks whether something is to be done; the command that does the same stands below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
    ]

    def __init__(self, question: str, lines: Sequence[str], command: str) -> None:
        super().__init__()
        self._question = question
        self._lines = lines
        self._command = command

    def compose(self) -> ComposeResult:
        """The question, what would change, the command, the keys."""
        with Vertical(classes="dialog"):
            yield Static(Text(self._question, "bold"))
            for line in self._lines:
                yield Static(Text(line))
            yield Static(Text(self._command, "dim"))
            yield Static(Text.assemble(("y", "bold"), " yes   ", ("n", "bold"), " no"))

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


class Property(ModalScreen[tuple[str, str] | None]):
    """Lists the properties of an operator; the chosen one gets a value. None if nothing is to be set."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave")]

    def __init__(self, operator: str, properties: Mapping[str, Any]) -> None:
        super().__init__()
        self._operator = operator
        self._properties = properties
        self._chosen = ""

    def compose(self) -> ComposeResult:
        """The list, and a line for the value."""
        with Vertical(classes="dialog"):
            yield Static(Text(f"Property of {self._operator}: choose with Enter, then its value", "bold"))
            options = [
                Option(Text(f"{name} = {value!r}"), id=f"p{number}")
                for number, (name, value) in enumerate(self._properties.items())
            ]
            yield OptionList(*options)
            yield Input(placeholder="value, as -D takes it", id="value", disabled=True)

    @on(OptionList.OptionSelected)
    def choose(self, event: OptionList.OptionSelected) -> None:
        """A property is chosen: its value is to be written."""
        self._chosen = list(self._properties)[event.option_index]
        value = self.query_one("#value", Input)
        value.disabled = False
        present = self._properties[self._chosen]
        value.value = present if isinstance(present, str) else repr(present)
        value.focus()

    @on(Input.Submitted)
    def submit(self, event: Input.Submitted) -> None:
        """The value is written."""
        event.stop()
        self.dismiss((self._chosen, event.value))

    def action_leave(self) -> None:
        """Set nothing."""
        self.dismiss(None)
