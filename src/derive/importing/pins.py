# SPDX-License-Identifier: Apache-2.0
"""The checkpoints that a project's locks have.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from derive.canonical import CanonicalError, Json, decode
from derive.importing.mounting import Pin


def known_pins(files: Mapping[str, bytes]) -> Iterator[Pin]:
    """Yield every checkpoint of every lock among a project's files; a lock that cannot be read has none."""
    for path in sorted(files):
        if not path.startswith("lock/") or not path.endswith(".lock.json"):
            continue
        if b'"huggingface"' not in files[path]:
            continue
        try:
            document = decode(files[path])
        except CanonicalError:
            continue
        entries = document.get("entries") if isinstance(document, Mapping) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and entry.get("type") == "huggingface":
                revision = entry.get("revision")
                yield Pin(
                    set=path.removeprefix("lock/").removesuffix(".lock.json"),
                    name=_text(entry, "name"),
                    repository=_text(entry, "repository"),
                    revision=revision if isinstance(revision, str) else None,
                )


def _text(entry: Mapping[str, Json], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""
