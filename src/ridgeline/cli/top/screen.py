"""The screen of `ridgeline top`: the sentence, the windows, the operators, and keys that act."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import Any, ClassVar
from urllib.parse import quote

from rich.console import Group, RenderableType
from rich.text import Text
from textual import on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.masking import printable
from ridgeline.cli.remote.change_request import WAIT_SECONDS, who
from ridgeline.cli.remote.client import Client
from ridgeline.cli.top.board import COLUMNS, Board, OperatorRow, strip
from ridgeline.cli.top.dialogs import Confirm, Property
from ridgeline.cli.top.feed import Feed, Seen
from ridgeline.cli.top.panels import lines_panel, operator_panel, owner_of, slots_panel, sources_panel
from ridgeline.cli.top.table import OperatorTable
from ridgeline.cli.views.path import path_text
from ridgeline.cli.views.running import running_lines
from ridgeline.cli.views.screen import change_lines, promise_lines
from ridgeline.cli.views.verdict import sentence_text
from ridgeline.measure.answers.application import OverviewAnswer
from ridgeline.measure.wording.times import to_blame
from ridgeline.measure.wording.units import count, milliseconds, time_of_day

_FRAME_SECONDS = 0.25
_LATENCY = next(number for number, column in enumerate(COLUMNS) if column.name == "latency")
_LOW = 24
"""With fewer lines the panels below the table are left out."""


class TopScreen(App[str]):
    """Shows one application, and changes it on demand; `run` returns how it ended.

    Args:
        client: Asks the application.
        name: Its name, for the title and for the commands that dialogs show.
    """

    CSS = """
    Screen { background: $background; }
    #sentence { height: auto; max-height: 4; padding: 0 1; }
    #notice { height: auto; padding: 0 1; display: none; color: $warning; }
    #notice.shown { display: block; }
    #windows, #path, #news { height: auto; padding: 0 1; }
    #path { max-height: 3; }
    #filter { display: none; height: 1; border: none; padding: 0 1; }
    #filter.shown { display: block; }
    #operators { height: 1fr; min-height: 4; margin: 1 1 0 1; }
    #below { height: 11; border-top: solid $primary 40%; }
    #below.gone { display: none; }
    #below VerticalScroll { padding: 0 1; width: 1fr; }
    Confirm, Property { align: center middle; }
    .dialog { width: 80%; max-width: 100; height: auto; max-height: 80%; padding: 1 2; background: $surface;
              border: round $accent; }
    .dialog OptionList { max-height: 12; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("s", "sort(1)", "Sort"),
        Binding("S", "sort(-1)", "Sort back", show=False),
        Binding("r", "reverse", "Reverse"),
        Binding("u", "together", "Partitions"),
        Binding("d", "details", "Details"),
        Binding("l", "lines", "Lines"),
        Binding("p", "pause", "Pause"),
        Binding("e", "edit", "Set"),
        Binding("x", "stop", "Stop"),
        Binding("colon", "command_palette", "Commands", key_display=":"),
        Binding("question_mark", "help", "Help", key_display="?"),
        Binding("escape", "clear", "Clear", show=False),
    ]

    def __init__(self, client: Client, name: str) -> None:
        super().__init__()
        self.title = name
        self._client = client
        self._app_name = name
        self._feed = Feed(client)
        self._board = Board()
        self._number = -1
        self._sort, self._reverse, self._together, self._pattern = _LATENCY, False, True, ""
        self._details, self._lines = True, False

    def compose(self) -> ComposeResult:
        """Sentence, windows, path and table; below them details, sources and slots; the keys at the foot."""
        yield Static(Text(f"{self._app_name}: asking ..."), id="sentence")
        yield Static(id="notice")
        yield Static(id="windows")
        yield Static(id="path")
        yield Static(id="news")
        yield Input(placeholder="part of a name; Enter keeps it, Esc clears it", id="filter", compact=True)
        yield OperatorTable()
        with Horizontal(id="below"):
            yield VerticalScroll(Static(id="details"), can_focus=False)
            yield VerticalScroll(Static(id="sources"), can_focus=False)
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        """Begin to read and to draw."""
        self.query_one(OperatorTable).focus()
        self._feed.start()
        self.set_interval(_FRAME_SECONDS, self.draw)

    def on_unmount(self) -> None:
        """Read no more."""
        self._feed.stop()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self._number = -1

    # Drawing ------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw the newest figures, if there are any that are not drawn."""
        seen = self._feed.seen
        if seen.number == self._number:
            return
        self._number = seen.number
        self.show(seen)

    def show(self, seen: Seen) -> None:
        """Draw these figures."""
        self._board.known(seen.windows)
        if seen.overview is not None:
            self._board.take(seen.overview)
        if seen.sentence is not None:
            line = Text.assemble((self._app_name, "bold"), "  ", sentence_text(seen.sentence))
            self.query_one("#sentence", Static).update(line)
        self._show_notice(seen)
        self._show_table()
        self._show_above(self._board.overview)
        self.query_one("#below").set_class(not self._details or self.size.height < _LOW, "gone")
        self._show_below()

    def _show_notice(self, seen: Seen) -> None:
        notice = self.query_one("#notice", Static)
        text = ""
        if seen.ended:
            text = "the application has ended; these are its last figures; q leaves"
        elif seen.stale_since is not None:
            text = f"stale since {time_of_day(seen.stale_since)}, trying again: {printable(seen.why)}"
        notice.update(Text(text))
        notice.set_class(bool(text), "shown")

    def _show_above(self, overview: OverviewAnswer | None) -> None:
        """The strip of windows, the critical path, and what has changed or is broken."""
        if overview is None:
            return
        width = max(20, self.size.width - 2)
        window_ms = 1000 * (overview["info"]["windowSeconds"] if "id" in overview["info"] else 1.0)
        latencies = [latency for _, latency in self._board.windows]
        newest = milliseconds(latencies[-1] if latencies else None)
        head = Text.assemble(("windows ", "dim"), (count(overview["windowId"]), "bold"), f" {newest} ")
        tail = Text(f" max {milliseconds(max(latencies[-width:], default=None))}", "dim")
        room = max(1, width - head.cell_len - tail.cell_len)
        strip_of = strip(self._board.windows, room, window_ms)
        self.query_one("#windows", Static).update(Text.assemble(head, strip_of, tail))
        self.query_one("#path", Static).update(path_text(overview["criticalPath"], width))
        news: list[RenderableType] = [
            *change_lines(overview),
            *promise_lines(overview),
            *running_lines(overview["progress"]),
        ]
        self.query_one("#news", Static).update(Group(*news))

    def _show_table(self) -> None:
        rows = self._board.rows(
            together=self._together, pattern=self._pattern, column=self._sort, reverse=self._reverse
        )
        empty = (
            f"no operator has `{self._pattern}` in its name"
            if self._pattern
            else "no window is committed yet"
        )
        self.query_one(OperatorTable).show(rows, sorted_by=self._sort, reverse=self._reverse, empty=empty)

    def _show_below(self) -> None:
        """Draw the panels below the table, and ask for the lines that they show; called for each news."""
        overview, row = self._board.overview, self.query_one(OperatorTable).current
        if overview is None or self.query_one("#below").has_class("gone"):
            self._feed.ask_lines()
            return
        width = max(20, self.size.width // 2 - 4)
        chosen = None if row is None else owner_of(overview, row)
        slowest = to_blame(overview)
        self._feed.ask_lines(chosen, slowest if self._lines else None)
        lines = self._feed.seen.lines
        right = [*sources_panel(overview, width), *slots_panel(overview, width)]
        if row is None or chosen is None:
            left: list[RenderableType] = []
        elif self._lines:
            left = lines_panel(chosen, lines, width, to_blame=chosen == slowest)
        else:
            left = [operator_panel(overview, row, lines.get(chosen), width)]
        if self._lines and slowest is not None and slowest != chosen:
            right = lines_panel(slowest, lines, width, to_blame=True)
        self.query_one("#details", Static).update(Group(*left))
        self.query_one("#sources", Static).update(Group(*right))

    @on(OperatorTable.Moved)
    def moved(self) -> None:
        """Another operator is under the cursor."""
        self._show_below()

    @on(OperatorTable.HeaderClicked)
    def header_clicked(self, event: OperatorTable.HeaderClicked) -> None:
        """Sort by the column; a second click turns the order round."""
        self._sort_by(event.column)

    # Keys: what is shown ------------------------------------------------------------------------------------

    def action_sort(self, by: int) -> None:
        """Sort by the next column, or by the one before."""
        self._sort, self._reverse = (self._sort + by) % len(COLUMNS), False
        self._show_table()

    def _sort_by(self, column: int) -> None:
        self._reverse = not self._reverse if column == self._sort else False
        self._sort = column
        self._show_table()

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._reverse = not self._reverse
        self._show_table()

    def action_together(self) -> None:
        """Show partitions as rows of their own, or together."""
        self._together = not self._together
        self._show_table()
        self._show_below()

    def action_details(self) -> None:
        """Show or hide the panels below the table."""
        self._details = not self._details
        self._number = -1

    def action_lines(self) -> None:
        """Show by line where the time of the operator and of the slowest goes, or the details again."""
        self._lines, self._details = not (self._lines and self._details), True
        if self.size.height < _LOW:
            self.notify(f"lines are shown in a terminal of {_LOW} lines or more", severity="warning")
        self._number = -1

    def action_filter(self) -> None:
        """Write what the names of operators must have in them."""
        box = self.query_one("#filter", Input)
        box.add_class("shown")
        box.focus()

    def action_clear(self) -> None:
        """Forget the filter."""
        box = self.query_one("#filter", Input)
        box.value = ""
        box.remove_class("shown")
        self.query_one(OperatorTable).focus()

    @on(Input.Changed, "#filter")
    def filter_changed(self, event: Input.Changed) -> None:
        """Filter while it is written."""
        self._pattern = event.value
        self._show_table()
        self._show_below()

    @on(Input.Submitted, "#filter")
    def filter_kept(self) -> None:
        """Keep the filter; the table gets the keys."""
        self.query_one(OperatorTable).focus()

    def action_help(self) -> None:
        """Show or hide all keys."""
        if self.screen.query("HelpPanel"):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The commands of `:`: one for each column to sort by, beside those that Textual has."""
        yield from super().get_system_commands(screen)
        for number, column in enumerate(COLUMNS):
            yield SystemCommand(
                f"sort {column.name}", "Sort operators by it", lambda to=number: self._sort_by(to)
            )
        yield SystemCommand("pause", "Begin no further window, or begin again", self.action_pause)
        yield SystemCommand("stop", "End the application after the windows under way", self.action_stop)

    # Keys: what is changed ----------------------------------------------------------------------------------

    def action_pause(self) -> None:
        """Pause the application, or continue it, once that is confirmed."""
        overview = self._board.overview
        info = None if overview is None else overview["info"]
        if info is not None and info["state"] == "PAUSED":
            self._confirm("Begin windows again?", [], "resume", "/resume", {})
        else:
            what = ["windows under way are committed"]
            self._confirm("Begin no further window?", what, "pause", "/pause", {})

    def action_stop(self) -> None:
        """End the application after the windows under way, once that is confirmed."""
        what = ["windows under way are committed and published; with its checkpoint it can continue"]
        self._confirm(f"End {self._app_name}?", what, "shutdown-app", "/shutdown", {})

    def action_edit(self) -> None:
        """Choose a property of the operator under the cursor, and give it a value."""
        row = self.query_one(OperatorTable).current
        if row is not None:
            self._ask_properties(row)

    @work(thread=True)
    def _ask_properties(self, row: OperatorRow) -> None:
        try:
            path = f"/logicalPlan/operators/{quote(row.logical, safe='')}/properties"
            properties = self._client.get(path)
        except RidgelineError as error:
            self.call_from_thread(self._refused, error)
            return
        self.call_from_thread(self._choose_property, row.logical, properties)

    def _choose_property(self, operator: str, properties: dict[str, Any]) -> None:
        if not properties:
            self.notify(f"{operator} has no properties")
            return

        def chosen(answer: tuple[str, str] | None) -> None:
            if answer is not None:
                self._dry_run(operator, *answer)

        self.push_screen(Property(operator, properties), chosen)

    @work(thread=True)
    def _dry_run(self, operator: str, name: str, value: str) -> None:
        """Ask what would change, and then whether it shall."""
        edit = {"do": "set-property", "operator": operator, "property": name, "value": value}
        try:
            lines = self._client.post("/changes", edits=[edit], dryRun=True)["lines"]
        except RidgelineError as error:
            self.call_from_thread(self._refused, error)
            return
        command = f"set-operator-property {shlex.join([self._app_name, operator, name, value])}"
        question = f"Set {operator}.{name}?"
        self.call_from_thread(self._confirm, question, lines, command, "/changes", {"edits": [edit]})

    def _confirm(
        self, question: str, lines: list[str], command: str, path: str, body: dict[str, Any]
    ) -> None:
        """Ask, and do it after a yes. `command`: what does the same; its first word names it."""
        whole = command if " " in command else f"{command} {shlex.quote(self._app_name)}"

        def answered(yes: bool | None) -> None:
            if yes:
                self._post(path, body, command.split(maxsplit=1)[0])

        self.push_screen(
            Confirm(question, [printable(line) for line in lines], f"ridgeline {whole}"), answered
        )

    @work(thread=True)
    def _post(self, path: str, body: dict[str, Any], verb: str) -> None:
        """Do it, and say what came of it."""
        try:
            row = self._client.post(path, **body, wait=WAIT_SECONDS, who=who())
        except RidgelineError as error:
            if path == "/shutdown" and not self._alive():
                return
            self.call_from_thread(self._refused, error)
            return
        state = str(row["state"]).lower()
        reason = f": {row['reason']}" if row["reason"] else ""
        severity = "error" if state == "refused" else "information"
        self.call_from_thread(
            self.notify, printable(f"{verb} is {state}{reason}"), severity=severity, markup=False
        )

    def _alive(self) -> bool:
        try:
            self._client.get("/info")
        except RidgelineError:
            return False
        return True

    def _refused(self, error: RidgelineError) -> None:
        self.notify(printable(str(error)), severity="error", markup=False)
