"""The ranks of web pages: a loop that runs until nothing moves any more.

Each page begins with a rank of its own, and passes most of every increase on to the pages that it links to.
Those receive it one window later, by the `Delay`. Increases get smaller with each turn. Those below
`tolerance` are kept back, so the loop runs dry, and the application ends.

Run it with `ridgeline run examples/page_rank.py`.
"""

from typing import NamedTuple

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort
from ridgeline.operators import ConsoleOutput, Delay
from ridgeline.testing import ListInput

DAMPING = 0.85


class Page(NamedTuple):
    """A page with all that it links to, separated by blanks."""

    name: str
    links: str


class Increase(NamedTuple):
    """What is added to the rank of a page."""

    page: str
    amount: float


class Rank(NamedTuple):
    """The rank of a page so far."""

    page: str
    rank: float


class Ranks(Operator):
    """Adds increases to ranks, and passes them on along the links."""

    pages = InputPort(Page, key="name")
    increases = InputPort(Increase, key="page")
    passed_on = OutputPort(Increase)
    ranks = OutputPort(Rank)
    links = KeyedState(str, key=str)
    rank = KeyedState(float, key=str, default=0.0)
    kept_back = KeyedState(float, key=str, default=0.0)

    tolerance: float = 1e-4

    @pages.process
    def add_page(self, page: Page) -> None:
        """Take a page in: it has a rank of its own."""
        self.links[page.name] = page.links
        self.kept_back[page.name] += 1 - DAMPING

    @increases.process
    def add(self, increase: Increase) -> None:
        """Take in what a link has passed on."""
        self.kept_back[increase.page] += increase.amount

    def end_window(self) -> None:
        """Pass on what is large enough; of a page that has not come yet nothing."""
        for page, increase in self.kept_back.changed():
            targets = self.links.get(page)
            if targets is None or increase < self.tolerance:
                continue
            self.kept_back[page] = 0.0
            self.rank[page] += increase
            self.ranks.emit(Rank(page, self.rank[page]))
            for target in targets.split():
                self.passed_on.emit(Increase(target, DAMPING * increase / len(targets.split())))


PAGES = [
    Page("home", "news shop help"),
    Page("news", "home"),
    Page("shop", "home help"),
    Page("help", "home shop contact"),
    Page("contact", "home"),
]

app = Application("page_rank", window="20ms")
source = app.add_operator("source", ListInput(Page, PAGES))
ranks = app.add_operator("ranks", Ranks(), partitions=2)
delay = app.add_module("delay", Delay(Increase))
console = app.add_operator("console", ConsoleOutput("{page} {rank:.3f}"))
app.add_stream("pages", source.output, ranks.pages)
app.add_stream("passed_on", ranks.passed_on, delay.input)
app.add_stream("increases", delay.output, ranks.increases)
app.add_stream("ranks", ranks.ranks, console.input)
