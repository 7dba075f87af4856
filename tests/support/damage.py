"""What can befall the files of a folder: for tests that restart on every kind of damage.

`cases(folder, earlier)` gives (name, function) for each file and each kind of damage; calling the function
with another copy of the folder does the damage there. `earlier`: a copy of the folder from before.
"""

import shutil
from functools import partial
from pathlib import Path

KINDS = ("flipped", "cut", "zeroed", "swapped", "copied over", "deleted", "restored", "emptied", "foreign")
REMEDIES = ("restore", "put it back", "run it with", "give another `--checkpoint`")


def cases(folder, earlier, pattern="**/*", kinds=KINDS):
    """Each kind of damage to each file that matches, as (description, function of a folder)."""
    for path in sorted(Path(folder).glob(pattern)):
        if path.is_file() and not path.name.startswith("."):
            for kind in kinds:
                yield from _of(Path(folder), Path(earlier), path.relative_to(folder), kind)


def names_file_and_remedy(error, *names):
    """Whether an error names one of the files (or their folders) and what to do."""
    text = str(error)
    parts = {part for name in names for part in (Path(name).name, Path(name).parent.name) if part}
    return any(part in text for part in parts) and any(remedy in text for remedy in REMEDIES)


def _of(folder, earlier, name, kind):
    data = (folder / name).read_bytes()
    siblings = sorted(
        path.name for path in (folder / name).parent.iterdir() if path.is_file() and path.name != name.name
    )
    siblings = [sibling for sibling in siblings if not sibling.startswith(".")][:3]
    if kind in ("flipped", "cut"):
        yield from _in_part(name, len(data), kind)
    elif kind in ("swapped", "copied over"):
        does = _swap if kind == "swapped" else _copy
        yield from ((f"{name} {kind} {sibling}", partial(does, name, sibling)) for sibling in siblings)
    elif kind == "foreign":
        for foreign in ("notes.txt", f"{name.name}~", "99"):
            yield f"{foreign} beside {name}", partial(_write, name.with_name(foreign), b"?")
    elif kind == "deleted":
        yield f"{name} deleted", partial(_delete, name)
    elif kind == "restored":
        if (earlier / name).is_file() and (earlier / name).read_bytes() != data:
            yield f"{name} restored", partial(_write, name, (earlier / name).read_bytes())
    else:
        yield f"{name} {kind}", partial(_write, name, bytes(len(data)) if kind == "zeroed" else b"")


def _in_part(name, size, kind):
    if kind == "flipped":
        places = {part * size // 6 for part in range(6)} | {size - 2}
        yield from (
            (f"{name} flipped at {place}", partial(_flip, name, place))
            for place in sorted(places)
            if 0 <= place < size
        )
    else:
        lengths = {1, size // 2, size - 1}
        yield from (
            (f"{name} cut to {length}", partial(_cut, name, length))
            for length in sorted(lengths)
            if 0 < length < size
        )


def _write(name, data, folder):
    (folder / name).write_bytes(data)


def _flip(name, position, folder):
    data = bytearray((folder / name).read_bytes())
    data[position] ^= 1
    (folder / name).write_bytes(data)


def _cut(name, length, folder):
    (folder / name).write_bytes((folder / name).read_bytes()[:length])


def _delete(name, folder):
    (folder / name).unlink()


def _swap(name, sibling, folder):
    one, other = folder / name, (folder / name).with_name(sibling)
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def _copy(name, sibling, folder):
    shutil.copyfile((folder / name).with_name(sibling), folder / name)
