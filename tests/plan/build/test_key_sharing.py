"""Where partitions may share keys: only where what they make of a key is merged again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from ridgeline import Application, InputPort, KeyedState, Operator, OutputPort, PartitionKeys, Unifier
from ridgeline.api.balancing import BalancedPartitioner
from ridgeline.api.errors import ValidationError
from ridgeline.plan.build.partitioning import PartitioningError, check_cover
from ridgeline.plan.edits import Repartition
from ridgeline.plan.planner import plan_application
from ridgeline.plan.spec.values import write_partitioner
from ridgeline.policies import SkewPolicy
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.plan.shared_words import SHARED, Count, Word, zipf


class Unmerged(Count):
    output = OutputPort(Word)


class Lasting(Count):
    counts = KeyedState(int)


class Most(Unifier):
    """The word that came most often: right only if each word has been counted in one partition."""

    input = InputPort(Word)
    output = OutputPort(Word)

    def begin_window(self, window_id):
        self.best = None

    @input.process
    def compare(self, word):
        if self.best is None or word.count > self.best.count:
            self.best = word

    def end_window(self):
        if self.best is not None:
            self.output.emit(self.best)


class Best(Count):
    output = OutputPort(Word, unifier=Most)


class Meeting(Count):
    more = InputPort(Word, key="word")

    @more.process
    def meet(self, word):
        if word.word in self.counts:
            self.count(word)


class Follows(Operator):
    data = InputPort(Word, parallel=True)
    output = OutputPort(Word)

    @data.process
    def pass_on(self, word):
        self.output.emit(word)


def words(kind, partitioner=None, items=(), *, connected=True, follows=False, partitions=3):
    app = Application("words")
    source = app.add_operator("words", ListInput(Word, list(items)))
    count = app.add_operator("count", kind(), partitions=partitions, partitioner=partitioner)
    app.add_stream("words", source.output, count.data, *([count.more] if kind is Meeting else []))
    end = count
    if follows:
        end = app.add_operator("follows", Follows())
        app.add_stream("followed", count.output, end.data)
    if connected:
        sink = app.add_operator("sink", CollectorSink(Word))
        app.add_stream("counts", end.output, sink.input)
    return app


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        (Unmerged, {}, "output port `output` has no unifier"),
        (Lasting, {}, "state `counts` is kept for longer than an application window"),
        (Count, {"connected": False}, "it has no connected output port"),
        (Count, {"follows": True}, "`follows.data` follows its partitions one by one"),
        (Best, {}, "the unifier of output port `output` does not say that it merges by the same key"),
        (Meeting, {}, "tuples of one key must meet that come in at `data` and `more`"),
    ],
)
def test_sharing_is_refused_where_nothing_merges(kind, options, why):
    with pytest.raises(ValidationError, match=why):
        plan_application(words(kind, SHARED, **options))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([({0, 1}, {3}), ({2}, ())], "ends in 3 .* are taken by partitions 0"),
        ([({0, 1}, {3}), ({2, 3}, ())], "ends in 3 .* are taken by partitions 0, 1"),
        ([({0, 1, 3}, {3}), ({2}, {3})], "shared keys without, or among, those"),
        ([({0, 1, 2}, {3}), ((), {3})], "shared keys without, or among, those"),
        ([({0, 1, 2}, {3, 5}), ((), {3})], "the key 5, which no hash has"),
    ],
)
def test_every_key_is_of_one_partition_or_shared_by_several(keys, text):
    made = [PartitionKeys(3, frozenset(own), frozenset(shared)) for own, shared in keys]
    with pytest.raises(PartitioningError, match=text):
        check_cover("it", "data", made)


def items_of(windows):
    for window in windows:
        yield from ((word, 1) for word in window)
        yield END_WINDOW


def counts(run, window):
    found = Counter()
    for word, count in run.collected("sink", window):
        assert word not in found  # merged: once in each window
        found[word] = count
    return found


@pytest.mark.parametrize("seed", range(4))
def test_results_are_exact_while_keys_are_shared_or_not(seed):
    windows, random = zipf(), np.random.default_rng(seed)
    plain = BalancedPartitioner(4, [cell % 3 for cell in range(16)])
    divisions = [SHARED, plain, BalancedPartitioner(4, [2] * 8 + [1] * 4 + [0] * 4, {3: (0, 2)})]
    changes = {
        int(window): [Repartition("count", None, write_partitioner(divisions[place % 3]))]
        for place, window in enumerate(sorted(random.choice(np.arange(1, 29), 6, replace=False)))
    }
    changes[29] = [Repartition("count", int(random.integers(2, 5)))]
    run = run_local(words(Count, None, items_of(windows)), changes=changes, faults=Faults(seed=seed))
    assert all(change.state == "APPLIED" for change in run.changes), [one.reason for one in run.changes]
    for window, own in enumerate(windows):
        assert counts(run, window) == Counter(own), window


@pytest.mark.guide("002", "Skew Unifier Partition")
def test_the_policy_shares_a_hot_key():
    windows = zipf(windows=40)
    app = words(Count, None, items_of(windows))
    app.add_policy(SkewPolicy(cooldown=0, min_windows=2, busy=1e-6))
    run = run_local(app)
    (decision,) = run.decisions().to_pylist()
    assert decision["state"] in {"APPLIED", "HELPED"}, decision
    assert "key `the` is 6" in decision["note"]
    assert "shares 1 among several partitions" in decision["note"]
    for window, own in enumerate(windows):
        assert counts(run, window) == Counter(own), window


@pytest.mark.parametrize("kind", [Unmerged, Best])
def test_the_policy_shares_nothing_that_nobody_merges(kind):
    app = words(kind, None, items_of(zipf()))
    app.add_policy(SkewPolicy(cooldown=0, min_windows=2, busy=1e-6))
    for decision in run_local(app).decisions().to_pylist():
        assert "shares" not in decision["note"]
