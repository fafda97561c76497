# SPDX-License-Identifier: Apache-2.0
"""Writes which variables a wheel reads, from its sources and from the texts in its compiled libraries.

    variables.py TREE FOLDER

LIBRARIES are patterns of the libraries to look into, PREFIXES what names in them begin with, FAMILIES what names begin
with that a wheel composes; all separated by spaces. Python's standard library alone.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import reads

_TESTS = frozenset({"test", "testing", "tests"})
"""Folders of which nothing runs in a service."""
_C = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inc", ".inl"})


def main(root: Path, folder: Path) -> None:
    """Read a wheel's tree, write a document that is called after it."""
    settings = {name: os.environ.get(name, "").split() for name in ("LIBRARIES", "PREFIXES", "FAMILIES")}
    found: dict[str, str] = {}
    for name, path in sorted([*_sources(root, settings["FAMILIES"]), *_libraries(root, settings)]):
        found.setdefault(name, path)
    wheel = _wheel(root)
    document = {**wheel, "variables": dict(sorted(found.items()))}
    target = folder / f"{wheel['wheel']}.json"
    target.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=True) + "\n", encoding="utf-8")


def _wheel(root: Path) -> dict[str, str]:
    """Return the name and version that a wheel's metadata gives."""
    (metadata,) = root.glob("*.dist-info/METADATA")
    head = metadata.read_text(encoding="utf-8").split("\n\n", 1)[0].splitlines()
    said = dict(line.split(": ", 1) for line in reversed(head) if ": " in line)
    return {"version": said["Version"], "wheel": said["Name"].lower().replace("_", "-").replace(".", "-")}


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _TESTS)
        for name in sorted(names):
            path = Path(folder, name)
            yield path.relative_to(root).as_posix(), path


def _sources(root: Path, families: list[str]) -> Iterator[tuple[str, str]]:
    parsed: dict[str, reads.Source | None] = {}
    others: list[tuple[str, Path]] = []
    for shown, path in _files(root):
        if path.suffix in _C:
            yield from ((name, shown) for name in reads.c_reads(path.read_bytes()))
        elif path.suffix == ".py":
            data = path.read_bytes()
            if reads.may_read(data):
                parsed[shown] = reads.parse(data)
            else:
                others.append((shown, path))
    known = reads.helpers(source for source in parsed.values() if source is not None)
    calls = reads.may_call(known)
    for shown, path in others:
        data = path.read_bytes()
        if calls.search(data):
            parsed[shown] = reads.parse(data)
    for shown, source in parsed.items():
        if source is not None:
            yield from ((name, shown) for name in reads.python_reads(source, known, families))


def _libraries(root: Path, settings: dict[str, list[str]]) -> Iterator[tuple[str, str]]:
    for pattern in settings["LIBRARIES"]:
        paths = sorted(root.glob(pattern))
        if not paths:
            sys.exit(f"variables.py: no library is named {pattern}")
        for path in paths:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                names = set(reads.library_reads(data, settings["PREFIXES"]))
            yield from ((name, path.relative_to(root).as_posix()) for name in names)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
