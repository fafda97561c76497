# SPDX-License-Identifier: Apache-2.0
"""Capsules of what a project derives, packed without a release around it.

Edge: the store, the project, the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from derive.build.service import evaluate
from derive.canonical import sha256
from derive.capsule.gather import Gathered, gather
from derive.capsule.inputs import Contents, Input
from derive.capsule.model import CapsuleDocument, Use
from derive.capsule.whole import whole_of
from derive.capsule.write import write_capsule
from derive.derivations.model import Platform, closure
from derive.project import load_project
from derive.store.local import LocalStore


def contents_of(root: Path, image: str, platform: Platform = "linux/amd64", name: str = "r-1") -> Contents:
    """Return what an image of a project derives from, its content files beside it."""
    project = load_project(root)
    inputs = [
        Input(use=Use(kind=one.builder, name=one.name), output=one.fixed)
        for one in closure(evaluate(project, f"image:{image}", platform))
        if one.fixed is not None
    ]
    texts = {Use(kind="content", name=path): data for path, data in project.files.items()}
    release = sha256(name.encode())
    return Contents(name=name, release=release, platforms=(platform,), engine=(), inputs=tuple(inputs), texts=texts)


def pack(store: Path, contents: Contents, target: Path, *, add: bool = False) -> CapsuleDocument:
    """Write a capsule out of a store."""
    with LocalStore(store) as opened:
        gathered: Gathered = gather(opened, contents)
        whole = whole_of(gathered.document, gathered.read)
        write_capsule(whole, target, add=add, jobs=2, say=lambda _: None)
    return gathered.document


def files_in(folder: Path) -> Mapping[str, bytes]:
    """Return every file below a folder by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
