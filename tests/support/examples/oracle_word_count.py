"""What the word count example must give, computed by pandas. Knows nothing of Ridgeline."""

from pathlib import Path

import pandas as pd


def counts(path, per_window):
    """(word, how often so far) of the words that each window of so many lines holds."""
    lines = pd.Series(Path(path).read_text(encoding="utf-8").split("\n"))
    table = (
        pd.DataFrame({"word": lines.str.lower().str.split(), "window": lines.index // per_window})
        .explode("word")
        .dropna()
    )
    table = table.groupby(["word", "window"]).size().reset_index(name="count")
    table["count"] = table.groupby("word")["count"].cumsum()
    return list(zip(table["word"], table["count"].tolist(), strict=True))
