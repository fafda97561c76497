# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.patches.apply import FileState
from derive.patches.conflict import unmerged
from derive.patches.repository import OURS, NewCommit, Repository
from support.patch_project import quick_folder

TEXT = b"".join(b"%d\n" % number for number in range(20))
BASE = {b"caf\xe9": FileState(contents=TEXT), b"keep": FileState(contents=b"k\n")}


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (
            {b"caf\xe9": TEXT.replace(b"5\n", b"v\n", 1)},
            {b"caf\xe9": TEXT.replace(b"5\n", b"f\n", 1)},
            "caf%E9: conflict 1",
        ),
        ({b"caf\xe9": None}, {b"caf\xe9": TEXT + b"x\n"}, "caf%E9: changed by the patch, and no longer there"),
        ({b"caf\xe9": TEXT + b"x\n"}, {b"caf\xe9": None}, "caf%E9: removed by the patch, and changed since"),
        ({b"new": b"one\n"}, {b"new": b"two\n"}, "new: conflict 1"),
    ],
)
def test_each_kind_of_conflict_is_named(
    ours: dict[bytes, bytes | None], theirs: dict[bytes, bytes | None], expected: str
) -> None:
    def commit(changes: dict[bytes, bytes | None]) -> NewCommit:
        states = {path: None if data is None else FileState(contents=data) for path, data in changes.items()}
        return NewCommit(changes=states, author=OURS, message=b"m\n")

    with quick_folder() as place:
        repository = Repository(place)
        repository.create()
        (base,) = repository.import_commits(None, [NewCommit(changes=BASE, author=OURS, message=b"m\n")])
        (left,) = repository.import_commits(base, [commit(ours)])
        (right,) = repository.import_commits(base, [commit(theirs)])
        repository.check_out(left)
        repository.git("cherry-pick", right, codes=(1,))
        found = unmerged(repository, "p")
        assert found.text[0] == expected
        assert len(found.paths) == 1
