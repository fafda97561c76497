# SPDX-License-Identifier: Apache-2.0
"""Where what an operand names lies in a store: a blob's file, or a tree's folder, which is made when it is asked for.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput, parse_output
from derive.errors import InputErrors, Missing
from derive.operands import ByDigest, Named, Operand, Released, Working
from derive.store.graph import by_prefix, derivations, outputs
from derive.store.local import LocalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One output and where it lies."""

    output: Output
    path: Path


def find_place(store: LocalStore, operand: Operand, name: str, current: Callable[[Named], Derivation]) -> Place:
    """Return where the output of that name of what an operand names lies; nothing is built or fetched.

    ``current`` says what a name stands for in the project at hand.

    Raises:
        InputErrors: when nothing, or several things, have that name or digest.
        Missing: when it was never built, or is gone from the store.
    """
    output = _output(store, operand, name, current)
    match output:
        case TreeOutput(digest):
            return Place(output=output, path=_tree(store, digest))
        case FlatOutput(digest):
            return Place(output=output, path=store.blob_path(digest))


def _tree(store: LocalStore, tree: Digest) -> Path:
    if not store.has_tree(tree):
        raise Missing(f"tree {tree.short} is not in the store", detail=[f"tree  {tree}"], hint="build it again")
    return store.folder(tree)


def _output(store: LocalStore, operand: Operand, name: str, current: Callable[[Named], Derivation]) -> Output:
    match operand:
        case Working():
            raise InputErrors.one("the working tree is no output", hint="name an image, a derivation or a digest")
        case Released():
            hint = "name the digest of one of its images: derive records show NAME"
            raise InputErrors.one("a release is no output", hint=hint)
        case Named():
            target = current(operand)
            return _given(store, [target.id], name, str(operand))
        case ByDigest(prefix, kind):
            found: set[Output] = set()
            if kind in ("any", "tree"):
                found.update(map(TreeOutput, _files(store.root / "listings", prefix, ".json")))
            if kind in ("any", "image"):
                found.update(map(FlatOutput, _files(store.root / "blobs" / "sha256", prefix, "")))
            if kind in ("any", "drv"):
                ids = [row.id for row in by_prefix(store.database, prefix)]
                found.update([_given(store, ids, name, str(operand))] if ids else [])
            return _only(found, operand)


def _files(folder: Path, prefix: str, suffix: str) -> list[Digest]:
    return [Digest(path.name.removesuffix(suffix)) for path in folder.glob(f"{prefix}*{suffix}") if _fits(path, suffix)]


def _fits(path: Path, suffix: str) -> bool:
    return len(path.name) == 64 + len(suffix)


def _given(store: LocalStore, ids: Iterable[Digest], name: str, shown: str) -> Output:
    rows = derivations(store.database, ids)
    given = outputs(store.database, rows.values())
    texts = {text for named in given.values() for key, text in named.items() if key == name}
    if len(texts) == 1:
        return parse_output(texts.pop())
    if texts:
        raise InputErrors.one(f"{shown} is ambiguous", detail=sorted(f"may be    {key.short}" for key in rows))
    if any(given.values()):
        have = ", ".join(sorted({key for named in given.values() for key in named}))
        raise InputErrors.one(f"{shown} has no output {name!r}", detail=[f"outputs   {have}"])
    raise Missing(f"{shown} is not built yet", hint=f"derive build {shown}")


def _only(found: set[Output], operand: ByDigest) -> Output:
    if len(found) == 1:
        return found.pop()
    if found:
        detail = sorted(f"may be    {one}" for one in found)
        raise InputErrors.one(f"{operand} is ambiguous", detail=detail, hint="give more digits, or say tree: or drv:")
    raise InputErrors.one(f"nothing in the store is {operand}", hint="derive show lists names")
