# SPDX-License-Identifier: Apache-2.0
"""A name that is taken, found out before anything is built: would the release come to another one than stands there?

Edge: the project's records.

Everything of a release but its images' digests is known before they are derived; of the same derivations they are the
same, and where they are not, that is found when the release is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from derive.errors import InputErrors
from derive.records.folder import files_below, sound
from derive.releases.describe import Question, foreseen
from derive.releases.document import Release
from derive.releases.find import known_of

_SHOWN = 10


def require_same(root: Path, name: str, question: Question) -> None:
    """Refuse a name that another release has; raises InputErrors with what would differ."""
    files = files_below(root)
    entry = sound(files).candidate(name)
    if entry is None:
        return
    there = known_of(entry, files).release
    differing = list(differences(there, foreseen(question, {one: image.digest for one, image in there.images.items()})))
    if not differing:
        return
    detail = [f"differs   {one}" for one in differing[:_SHOWN]]
    if len(differing) > _SHOWN:
        detail.append(f"and {len(differing) - _SHOWN} more")
    hint = "records are never changed: choose another name"
    raise InputErrors.one(
        f"the name {name!r} is taken, and this is another release", where=entry.where, detail=detail, hint=hint
    )


def differences(first: Release, second: Release) -> Iterator[str]:
    """Yield each part in which two releases differ, by its key and name."""
    before, after = first.document(), second.document()
    for part in before:
        one, other = before[part], after[part]
        if one == other:
            continue
        if not isinstance(one, Mapping) or not isinstance(other, Mapping):
            yield part
            continue
        yield from (f"{part}: {key}" for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key))
