"""What the Pi example must give, computed by numpy. Knows nothing of Ridgeline."""

import numpy as np

RADIUS = 30_000


def numbers(seed, count):
    """The first numbers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), modulo the range."""
    states = np.cumsum(np.full(count, 0x9E3779B97F4A7C15, np.uint64), dtype=np.uint64) + np.uint64(seed)
    states = (states ^ (states >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    states = (states ^ (states >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((states ^ (states >> np.uint64(31))) % np.uint64(RADIUS + 1)).astype(np.int64)


def estimates(seed, count, per_window, makers=1, pairers=1):
    """(points, inside, pi) at the end of every tenth window and of the last.

    `makers` make the numbers, `pairers` points of them. The makers share each window's numbers as runs. Each
    run goes to the pairers round robin, the first number of maker m in window w to pairer w + m; each
    makes a point of two that it got one after the other.
    """
    values = numbers(seed, count)
    kept = [np.empty(0, np.int64) for _ in range(pairers)]
    points = inside = 0
    found = []
    windows = max(1, -(-count // per_window))
    for window in range(windows):
        part = values[window * per_window : (window + 1) * per_window]
        runs = [part[len(part) * i // makers : len(part) * (i + 1) // makers] for i in range(makers)]
        for index in range(pairers):
            mine = np.concatenate(
                [
                    kept[index],
                    *(run[(index - window - maker) % pairers :: pairers] for maker, run in enumerate(runs)),
                ]
            )
            pairs = mine[: len(mine) // 2 * 2].reshape(-1, 2)
            kept[index] = mine[len(pairs) * 2 :]
            points += len(pairs)
            inside += int((np.hypot(*pairs.T) <= RADIUS).sum())
        if window % 10 == 9 or window == windows - 1:
            found.append((points, inside, 4 * inside / max(1, points)))
    return found
