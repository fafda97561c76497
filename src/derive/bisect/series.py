# SPDX-License-Identifier: Apache-2.0
"""The edits between two folders of patches: each patch added, removed or changed, and the order of those both have.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from derive.bisect.values import ORDER, Key, ValueEdit, in_order, merged
from derive.errors import InputErrors
from derive.patches.series import SUFFIX, Series, parse_series

Files = Mapping[str, bytes]


def folders(files: Files) -> tuple[str, ...]:
    """Return the folders of patches in a project's files: ``patches/NAME``."""
    return tuple(sorted({"/".join(path.split("/")[:2]) for path in files if path.startswith("patches/")}))


def series_edits(before: Files, after: Files) -> Iterator[ValueEdit] | None:
    """Yield the edits that make the first folder the second; None where a series cannot be read."""
    both = _read(before), _read(after)
    if both[0] is None or both[1] is None:
        return None
    return _edits(before, after, both[0].names, both[1].names)


def _edits(before: Files, after: Files, old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[ValueEdit]:
    for name in dict.fromkeys([*old, *new]):
        texts = before.get(name) if name in old else None, after.get(name) if name in new else None
        if texts[0] != texts[1]:
            yield ValueEdit((name,), *(None if text is None else "there" for text in texts))
    if not in_order(old, new):
        yield ValueEdit((ORDER,), list(old), list(new))


def composed_series(before: Files, after: Files, chosen: Collection[Key]) -> dict[str, bytes]:
    """Return the first folder with some of the edits made: patches, and the series that names them."""
    old, new = _read(before), _read(after)
    assert old is not None
    assert new is not None
    made: dict[str, bytes] = {name: data for name, data in before.items() if not name.endswith(SUFFIX)}
    for name in dict.fromkeys([*old.names, *new.names]):
        data = (after if (name,) in chosen else before).get(name)
        if data is not None:
            made[name] = data
    order = merged(old.names, new.names, made.__contains__, by_second=(ORDER,) in chosen)
    if list(order) != list(old.names):
        made["series"] = "".join([f"# licence: {old.licence}\n", *(f"{name}\n" for name in order)]).encode()
    return made


def _read(files: Files) -> Series | None:
    if "series" not in files:
        return None
    try:
        return parse_series(files["series"])
    except InputErrors:
        return None
