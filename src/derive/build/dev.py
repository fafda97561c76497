# SPDX-License-Identifier: Apache-2.0
"""An image with one more layer, taken from work trees as they lie: for trying an edit, and never for promotion.

Edge: the store, folders of this machine, through the services below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.execute import Progress
from derive.build.images import DerivedImage
from derive.build.memo import MANIFEST_TYPE
from derive.build.service import Options, plan_for, realise
from derive.canonical import Digest
from derive.derivations.evaluate import Evaluator, Overlay
from derive.derivations.model import FlatOutput, Platform
from derive.derivations.scope import load_scope
from derive.errors import InputErrors, Problem
from derive.project import Project
from derive.store.local import LocalStore
from derive.store.scancache import add_folder_cached
from derive.trees.listing import ListingError, check_path

_LEFT_OUT = frozenset({b".git", b"__pycache__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTree:
    """A folder of this machine, and where in the image its contents are put (absolute, ``/`` for the root)."""

    folder: Path
    at: str


def parse_work_trees(texts: Sequence[str]) -> list[WorkTree]:
    """Read ``FOLDER`` or ``FOLDER:/PLACE``, each; raises InputErrors for every one that is no folder or no place."""
    found: list[WorkTree] = []
    problems: list[Problem] = []
    for text in texts:
        tree, wrong = _parse(text)
        found.append(tree)
        problems += wrong
    if problems:
        raise InputErrors(problems)
    return found


def _parse(text: str) -> tuple[WorkTree, list[Problem]]:
    folder, colon, at = text.rpartition(":")
    given = at
    if not colon or not at.startswith("/"):
        folder, at = text, "/"
    problems = []
    try:
        check_path(at.strip("/").encode("utf-8", "surrogateescape"))
    except ListingError as error:
        problems.append(Problem(where=f"--overlay {text}", message=f"not a place in an image: {error}"))
    if not Path(folder).is_dir():
        hint = (
            "a place in the image begins with /, as in FOLDER:/PLACE" if colon and not given.startswith("/") else None
        )
        problems.append(Problem(where=f"--overlay {text}", message="no such folder", hint=hint))
    return WorkTree(folder=Path(folder), at=at), problems


def derive_dev_image(
    project: Project,
    name: str,
    platform: Platform | None,
    trees: Sequence[WorkTree],
    store: LocalStore,
    options: Options,
    progress: Progress,
) -> DerivedImage:
    """Derive an image over which work trees are laid; raises what the steps raise, and InputErrors for odd files."""
    overlays = [
        Overlay(
            name=tree.folder.resolve().name or "tree",
            at=tree.at.strip("/"),
            tree=_add(store, tree.folder),
        )
        for tree in trees
    ]
    target = Evaluator(load_scope(project)).dev_image(name, platform, overlays)
    outputs = realise(plan_for(target, store, project.root), store, options, progress)
    out = outputs["out"]
    assert isinstance(out, FlatOutput)
    store.database.set_root("dev", f"{name} {target.host}", out.digest)
    tag = f"{name}-dev-{target.host.removeprefix('linux/')}"
    store.tag(tag, out.digest, store.blob_size(out.digest), MANIFEST_TYPE)
    return DerivedImage(manifest=out.digest, derivation=target.id)


def _add(store: LocalStore, folder: Path) -> Digest:
    try:
        return add_folder_cached(store, folder, but=_LEFT_OUT)
    except InputErrors as error:
        raise InputErrors([replace(one, where=f"{folder}/{one.where}") for one in error.problems()]) from error
