"""The word count example, built and checked."""

from pathlib import Path

import word_count
from support.examples import oracle_word_count as oracle
from support.examples.cases import partition_attributes, rows

TEXT = Path(word_count.__file__).with_name("words.txt")


def build(partitions, folder, *, per_window=500):
    """The application.

    Words are counted where their key leads them; lines go to `split` round robin.
    """
    return {
        "app": word_count.app,
        "properties": {
            "text.path": str(TEXT),
            "text.rows_per_window": str(per_window),
            "store.path": str(folder),
        },
        "attributes": partition_attributes(word_count.app, partitions),
    }


def check(folder, *, per_window=500):
    """Compare the counts with the oracle."""
    assert sorted(rows(folder)) == sorted(oracle.counts(TEXT, per_window))
