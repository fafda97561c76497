# SPDX-License-Identifier: Apache-2.0
"""An engine's source out of git, where a project is made in the repository that the engine comes from.

Edge: git as a subprocess, which only reads; the store.

A release names its engine by the hash of its source alone, and its record the commit that was checked out. Where that
commit has an engine, or one of the others that changed it, and it is the one, nobody need have kept it elsewhere.
"""

from __future__ import annotations

from pathlib import Path

from derive.canonical import Digest
from derive.doctor.git_facts import GitRefused, git
from derive.engine.fetch import is_own, keep_source
from derive.engine.model import source_of
from derive.errors import InputErrors
from derive.releases.past import read_blobs
from derive.store.local import LocalStore

_PACKAGE = "src/derive/"
_MOST = 64
"""How many commits are looked at: the record's own first, then those after it, then the newest before."""


def keep_from_git(store: LocalStore, root: Path, commit: str | None, nar: Digest) -> bool:
    """Put an engine's source into a store that lacks it, if git has it; return whether it came from there."""
    if commit is None or store.read_only or is_own(nar) or store.has_tree(nar):
        return False
    try:
        for one in _commits(root, commit):
            files = _files(root, one)
            if "__init__.py" in files and source_of(files).nar == nar:
                return keep_source(store, files) == nar
    except (GitRefused, InputErrors):  # no repository; or what lies there is no engine
        pass
    return False


def _commits(root: Path, commit: str) -> list[str]:
    """Return the commits that may have the engine; a history that was rewritten has the record's own no more."""
    changed = git(root, "rev-list", "HEAD", "--", f":/{_PACKAGE}").decode().split()
    try:
        later = git(root, "rev-list", "--reverse", f"{commit}..HEAD", "--", f":/{_PACKAGE}").decode().split()
    except GitRefused:
        return changed[:_MOST]
    return list(dict.fromkeys((commit, *later, *changed)))[:_MOST]


def _files(root: Path, commit: str) -> dict[str, bytes]:
    listed = git(root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", _PACKAGE).decode("utf-8", "surrogateescape")
    blobs = {}
    for row in listed.split("\0")[:-1]:
        about, _, path = row.partition("\t")
        inner = path.removeprefix(_PACKAGE)
        if not any(part.startswith((".", "__pycache__")) for part in inner.split("/")):
            blobs[inner] = about.split(" ")[2]
    read = read_blobs(root, blobs.values())
    return {path: read[blob] for path, blob in blobs.items()}
