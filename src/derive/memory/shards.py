# SPDX-License-Identifier: Apache-2.0
"""Reading a checkpoint at hand: its index, and the headers of its files; never a tensor.

Edge: the disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from derive.errors import InputErrors
from derive.infile import read_named
from derive.memory.checkpoint import PREFIX_BYTES, Entry, Index, header_bytes, parse_header, parse_index

INDEX = "model.safetensors.index.json"
_SHARDS = "*.safetensors"
_LARGEST_INDEX = 1 << 28


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What was found: the index, and the entries of all headers where every file that it names is there."""

    index: Index | None
    entries: dict[str, Entry] | None


def read_checkpoint(place: Path) -> Checkpoint:
    """Read an index, or the folder of a checkpoint.

    Raises:
        InputErrors: when there is neither an index nor a file of tensors, or one is not what it seems.
    """
    folder = place if place.is_dir() else place.parent
    file = place / INDEX if place.is_dir() else place
    if not file.is_file():
        shards = sorted(folder.glob(_SHARDS)) if place.is_dir() else []
        if not shards:
            hint = f"name a file {INDEX}, or the folder that holds it"
            raise InputErrors.one("no index of a checkpoint here", where=str(place), hint=hint)
        return Checkpoint(index=None, entries=_headers(shards))
    index = parse_index(read_named(file, largest=_LARGEST_INDEX), str(file))
    named = sorted({folder / name for name in index.files.values()})
    whole = all(path.parent == folder and path.is_file() for path in named)
    return Checkpoint(index=index, entries=_headers(named) if whole and named else None)


def _headers(files: Iterable[Path]) -> dict[str, Entry]:
    found = {}
    for path in files:
        with path.open("rb") as file:
            size = header_bytes(file.read(PREFIX_BYTES), str(path))
            found.update(parse_header(file.read(size), str(path)))
    return found
