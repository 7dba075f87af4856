"""Yahoo! Finance: quotes, charts and moving averages of five stocks, with the market's real prices and volumes.

The application of the Apex application guide (its Figure 1), operator for operator:

    ticks --price--+--------------------> quote <-- daily_volume     quote -> fridays -> quote_console
                   +-> high_low --------> chart <-- minute_volume    chart -> chart_console
                   +-> price_sma -> sma_console                      quote, chart -> year -> year_console
    ticks --volume--> daily_volume, minute_volume
    ticks --time----> quote

Run it: `ridgeline run examples/yahoo_finance.py`. It replays the last 250 trading days up to 2013-03-01, each
in four streaming windows: opening, the day's two extremes, close. Where the guide says minute it says trading
week here, five days. So about once a second you see the market of one more week: the quotes of Friday's
close, the week's highest and lowest price and its volume, and the average price of the last five weeks.

What to look at: in the end, when the input has finished, `year_console` prints each stock's year. These
figures are the data set's own: the last day's close, the highest high, the lowest low and the sum of all
volumes, which is right only if no tick was lost and none counted twice. Check one:

    python -c "
    from bokeh_sampledata.stocks import IBM
    print(IBM['close'][-1], min(IBM['low'][-250:]), max(IBM['high'][-250:]), sum(IBM['volume'][-250:]))"

More or fewer days: `-D ticks.days=3270` (all since 2000-03-01). With `--output DIR` all quotes, charts and
averages are also written as Parquet.
"""

from datetime import datetime, time, timezone
from typing import Any, NamedTuple

from pydantic import Field

from ridgeline import (
    Application,
    InputOperator,
    InputPoint,
    InputPort,
    KeyedPartitioner,
    KeyedState,
    Operator,
    OperatorContext,
    OutputPort,
    State,
)
from ridgeline.operators import (
    ConsoleOutput,
    ConsolidatorKeyVal,
    FileOutput,
    Filter,
    RangeKeyVal,
    SimpleMovingAverage,
    SumKeyVal,
)

DAY = 4  # streaming windows
WEEK = 5 * DAY
WHOLE_RUN = 10**9  # an application window that ends when the input has finished
SYMBOLS = ["AAPL", "FB", "GOOG", "IBM", "MSFT"]


class Price(NamedTuple):
    symbol: str
    price: float


class Volume(NamedTuple):
    symbol: str
    volume: int


class Time(NamedTuple):
    symbol: str
    time: datetime


class Quote(NamedTuple):
    """The last trade: its price and time, and the day's volume so far."""

    symbol: str
    price: float | None
    volume: int | None
    time: datetime | None


class HighLow(NamedTuple):
    symbol: str
    high: float
    low: float


class Chart(NamedTuple):
    """One bar of a chart: highest and lowest price, and volume."""

    symbol: str
    high: float | None
    low: float | None
    volume: int | None


class Average(NamedTuple):
    symbol: str
    average: float


class Year(NamedTuple):
    symbol: str
    days: int
    close: float
    high: float
    low: float
    volume: int


class StockTickerInput(InputOperator):
    """Ticks like those of an exchange, made of real daily quotes: one streaming window, one tick of each stock.

    A day is four ticks: opening, lowest and highest price (the highest first on days that end lower than they
    began), close. The source has the volume traded so far that day, as exchanges do; it emits the volume
    since the last tick. Times are those of the exchange's clock, called UTC.
    """

    price = OutputPort(Price)
    volume = OutputPort(Volume)
    time = OutputPort(Time)

    symbols: list[str] = Field(default=SYMBOLS, min_length=1)
    days: int = Field(default=250, ge=1, le=3270)

    position = State(0)  # in ticks
    last_volume = KeyedState(int, key=str, default=0)

    def setup(self, context: OperatorContext) -> None:
        from bokeh_sampledata import stocks  # only where the operator runs

        columns = ("date", "open", "high", "low", "close", "volume")
        tables = {symbol: getattr(stocks, symbol) for symbol in self.symbols}
        self.quotes = {
            symbol: {row[0]: row[1:] for row in zip(*map(table.get, columns), strict=True)}
            for symbol, table in tables.items()
        }
        self.dates = sorted({date for quotes in self.quotes.values() for date in quotes})[-self.days :]

    def emit_tuples(self) -> None:
        day, tick = divmod(self.position, DAY)
        date = self.dates[day]
        for symbol in self.symbols[self.context.partition :: self.context.partitions]:
            if date not in self.quotes[symbol]:  # FB came to the exchange in May 2012
                continue
            price, volume, hour = ticks_of(*self.quotes[symbol][date])[tick]
            new_day = tick == 0
            self.price.emit(Price(symbol, price))
            self.volume.emit(Volume(symbol, volume if new_day else volume - self.last_volume[symbol]))
            self.time.emit(Time(symbol, datetime.combine(datetime.fromisoformat(date), hour, timezone.utc)))
            self.last_volume[symbol] = volume
        self.position += 1
        if self.position == len(self.dates) * DAY:
            self.finish()

    def progress(self) -> tuple[float, float]:
        return self.position, len(self.dates) * DAY - self.position


def ticks_of(
    opening: float, high: float, low: float, close: float, volume: int
) -> tuple[tuple[float, int, time], ...]:
    """A day's four ticks: (price, volume traded so far, time).

    Most is traded in the morning and in the evening.
    """
    first, second = (low, high) if close >= opening else (high, low)
    return (
        (opening, volume * 30 // 100, time(9, 30)),
        (first, volume * 50 // 100, time(11)),
        (second, volume * 65 // 100, time(14)),
        (close, volume, time(16)),
    )


class YearOf(Operator):
    """Each stock's whole run in one tuple, once the input has finished: give it an application window that has no end."""

    quotes = InputPort(Quote, key="symbol")
    charts = InputPort(Chart, key="symbol")
    year = OutputPort(Year)

    partitioner_default = KeyedPartitioner()

    known = KeyedState(Year, key=str)

    def of(self, symbol: str) -> Year:
        return self.known.get(symbol) or Year(symbol, 0, 0.0, 0.0, float("inf"), 0)

    @quotes.process
    def note_quote(self, quote: Quote) -> None:
        if quote.price is None or quote.time is None:
            return  # a volume came first
        so_far = self.of(quote.symbol)
        closes = quote.time.time() == time(16)
        self.known[quote.symbol] = so_far._replace(days=so_far.days + closes, close=quote.price)

    @charts.process
    def note_chart(self, chart: Chart) -> None:
        if chart.high is None or chart.low is None or chart.volume is None:
            return  # half of it is still to come
        so_far = self.of(chart.symbol)
        self.known[chart.symbol] = so_far._replace(
            high=max(so_far.high, chart.high),
            low=min(so_far.low, chart.low),
            volume=so_far.volume + chart.volume,
        )

    def end_window(self) -> None:
        for year in self.known.values():
            self.year.emit(year)


def closes_on_friday(quote: Quote) -> bool:
    return quote.time is not None and quote.time.isoweekday() == 5 and quote.time.time() == time(16)


def application(output: str | None = None) -> Application:
    app = Application("yahoo-finance", window="50ms")
    ticks = app.add_operator("ticks", StockTickerInput())
    daily_volume = app.add_operator("daily_volume", SumKeyVal(cumulative=True, restart_every=DAY))
    quote = app.add_operator("quote", ConsolidatorKeyVal(schema=Quote))
    high_low = app.add_operator(
        "high_low", RangeKeyVal(schema=HighLow), application_window_count=WEEK, partitions=2
    )
    minute_volume = app.add_operator(
        "minute_volume", SumKeyVal(), application_window_count=WEEK, partitions=2
    )
    chart = app.add_operator("chart", ConsolidatorKeyVal(schema=Chart))
    sma = SimpleMovingAverage(schema=Average, window_size=5)
    price_sma = app.add_operator("price_sma", sma, application_window_count=WEEK, partitions=2)
    fridays = app.add_operator("fridays", Filter(predicate=closes_on_friday))
    year = app.add_operator("year", YearOf(), application_window_count=WHOLE_RUN)
    consoles = {
        name: app.add_operator(f"{name}_console", ConsoleOutput(string_format=f"{name.upper():5} {text}"))
        for name, text in {
            "quote": "{symbol:4} {price:9.2f}   volume of the day  {volume:15,}   {time:%Y-%m-%d %H:%M}",
            "chart": "{symbol:4} {low:9.2f} to {high:.2f}   volume {volume:,}",
            "sma": "{symbol:4} {average:9.2f}",
            "year": "{symbol:4} {close:9.2f}   from {low:.2f} to {high:.2f}   {volume:,} shares in {days} days",
        }.items()
    }
    stores = {}
    if output is not None:
        stores = {
            name: app.add_operator(f"{name}_store", FileOutput(path=f"{output}/{name}"))
            for name in ("quotes", "charts", "averages")
        }

    def store(name: str) -> list[InputPoint[Any]]:
        return [stores[name].input] if stores else []

    app.add_stream("price", ticks.price, quote.in1, high_low.data, price_sma.data)
    app.add_stream("volume", ticks.volume, daily_volume.data, minute_volume.data)
    app.add_stream("time", ticks.time, quote.in3)
    app.add_stream("daily_volume", daily_volume.sum, quote.in2)
    app.add_stream("high_low", high_low.range, chart.in1)
    app.add_stream("minute_volume", minute_volume.sum, chart.in2)
    app.add_stream("quotes", quote.out, fridays.data, year.quotes, *store("quotes"))
    app.add_stream("charts", chart.out, consoles["chart"].input, year.charts, *store("charts"))
    app.add_stream("averages", price_sma.average, consoles["sma"].input, *store("averages"))
    app.add_stream("closing_quotes", fridays.output, consoles["quote"].input)
    app.add_stream("years", year.year, consoles["year"].input)
    return app
