# SPDX-License-Identifier: Apache-2.0
"""Records of one branch put after those of another, where a merge brought two that follow the same one.

Edge: ``records/releases/`` of a project, under the lock of its chain.

What a record says stays; its number and the digest before it become others, so that git sees a file that moved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from derive.errors import InputErrors, Problem
from derive.outfile import open_output
from derive.records.chain import FOLDER, Entry, place, read_chain
from derive.records.folder import alone, files_below, next_file, sound, write_new
from derive.words import near


def renumber(root: Path, names: Sequence[str]) -> list[Path]:
    """Write some records after all others, in the order given, remove the files that they had, and return the new ones.

    Raises:
        InputErrors: when there is no record of a name, or the rest is no sound chain; nothing happened then.
        HostRefuses: when they cannot be written.
    """
    with alone(root):
        files = files_below(root)
        entries = _named(read_chain(files).entries, names)
        rest = {path: data for path, data in files.items() if path not in {entry.file for entry in entries}}
        sound(rest)
        new: dict[str, bytes] = {}
        for entry in entries:
            record = entry.record
            name, data = next_file(sound({**rest, **new}), record.kind, record.subject, record.body, _suffix(entry))
            new[name] = data
        # From the last: whatever is written over has its own new place by then, and a kill loses nothing.
        for name, data in reversed(new.items()):
            _write(root / FOLDER / name, data, over=name in files)
        for entry in entries:
            if entry.file not in new:
                (root / FOLDER / entry.file).unlink()
        return [root / FOLDER / name for name in new]


def _write(path: Path, data: bytes, *, over: bool) -> None:
    if over:
        with open_output(path) as file:
            file.write(data)
    else:
        write_new(path, data)


def _named(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    by_file = {entry.file.removesuffix(".json"): entry for entry in entries}
    stems = [Path(name).name.removesuffix(".json") for name in names]
    problems = [
        Problem(where=place(f"{stem}.json"), message="no such record", hint=near(stem, by_file) or _there(by_file))
        for stem in stems
        if stem not in by_file
    ]
    if problems:
        raise InputErrors(problems)
    return [by_file[stem] for stem in dict.fromkeys(stems)]


def _there(stems: Collection[str]) -> str:
    last = max(stems, default=None)
    return f"name records as their files are called: the last is {last}" if last else "there is none"


def _suffix(entry: Entry) -> str | None:
    rest = entry.file.removesuffix(".json")[len(f"{entry.number:04d}-{entry.record.subject}") :]
    return rest.removeprefix("-") or None
