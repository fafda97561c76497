# SPDX-License-Identifier: Apache-2.0
"""The trees that a series is applied to: the one that the project declares, or another that a person names.

Edge: the store and what fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import Digest, Json
from derive.errors import InputErrors, Missing, Unavailable, expected_got
from derive.project import Project
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.derivations.model import Derivation
    from derive.derivations.series import Source

_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tar.zst", ".zip", ".whl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """What trees are got with. ``progress`` makes one who is told, for each run."""

    project: Project
    store: LocalStore
    options: Options
    progress: Callable[[], Progress | None] = lambda: None


def declared_source(shop: Shop, upstream: str) -> Digest:
    """Return the tree that the project applies a series to, fetched and unpacked if need be.

    Of a wheel that has one file for each platform, it is that of the build platform.

    Raises:
        InputErrors: when no derivation applies the series, or several apply it to different sources.
        DeriveError: from fetching and unpacking.
    """
    from derive.derivations.scope import load_scope
    from derive.derivations.series import uses

    sources: dict[Source, str] = {}
    for use in sorted(uses(load_scope(shop.project), upstream), key=lambda one: one.step):
        sources.setdefault(use.source, use.place)
    if not sources:
        hint = 'declare one in derivations/: builder = "patch", from = the source, series = the name of the series'
        raise InputErrors.one(f"no derivation applies the series {upstream}", where=f"patches/{upstream}", hint=hint)
    if len(sources) > 1:
        detail = [f"{place}: from {source.name}" for source, place in sources.items()]
        hint = "name one of the sources with --source"
        message = f"the series {upstream} is applied to several sources"
        raise InputErrors.one(message, where=f"patches/{upstream}", detail=detail, hint=hint)
    return source_tree(shop, next(iter(sources)))


def source_tree(shop: Shop, source: Source) -> Digest:
    """Return the tree of what a series is applied to, fetched and unpacked if need be.

    Raises:
        DeriveError: from fetching and unpacking.
    """
    from derive.derivations.scope import load_scope
    from derive.derivations.series import source_derivation

    return _realised(shop, source_derivation(load_scope(shop.project), source))


def named_tree(shop: Shop, operand: str, upstream: str = "") -> Digest:
    """Return the tree that an operand stands for: ``tree:DIGEST``, a folder, an archive, or a declared derivation.

    For a series, ``git:REVISION`` is another revision of the upstream that it is applied to, and the file name of a
    wheel is one of those that it is applied to.

    Raises:
        InputErrors: when it is none of these, or may be two of them.
        Missing: when the store has no such tree.
    """
    if operand.startswith(("tree:", "sha256:", "nar:")):
        return _stored(shop.store, operand)
    if operand.startswith("git:"):
        from derive.patches.revisions import revision_tree

        if shop.options.offline:
            raise Unavailable("offline, and a revision of an upstream is to be fetched", where=operand)
        return revision_tree(shop.project, shop.store, upstream, operand.removeprefix("git:"))
    path = Path(operand)
    if "/" in operand or operand.startswith("."):
        return _from_disk(shop.store, path)
    if path.exists():
        if _is_declared(shop.project, operand):
            meanings = [f"drv:{operand}   what derivations/ declares", f"./{operand}     what lies in this folder"]
            raise InputErrors.one(f"{operand!r} may be two things", detail=meanings, hint="say which")
        return _from_disk(shop.store, path)
    if operand.endswith(".whl"):
        return _locked_wheel(shop, operand, upstream)
    from derive.build.service import evaluate

    return _realised(shop, evaluate(shop.project, operand, None))


def _locked_wheel(shop: Shop, file: str, upstream: str) -> Digest:
    from derive.derivations.scope import absent, load_scope
    from derive.derivations.series import uses

    known = {source.name: source for use in uses(load_scope(shop.project), upstream) for source in use.sources}
    if file not in known:
        hint = "a wheel that the lock does not name is named by its path: ./FILE"
        raise InputErrors([absent(f"patches/{upstream}", "wheel that the series is applied to", file, known, hint)])
    return source_tree(shop, known[file])


def _is_declared(project: Project, name: str) -> bool:
    from derive.derivations.scope import load_scope

    try:
        return name in load_scope(project).declared
    except InputErrors:
        return False  # a project that is wrong elsewhere is no reason to refuse a folder


def _realised(shop: Shop, target: Derivation) -> Digest:
    from derive.build.service import plan_for, realise
    from derive.derivations.model import TreeOutput

    out = realise(plan_for(target, shop.store, shop.options.root), shop.store, shop.options, shop.progress())["out"]
    if not isinstance(out, TreeOutput):
        raise InputErrors.one(f"{target.name} is a file, not a tree")
    return out.digest


def _stored(store: LocalStore, operand: str) -> Digest:
    text = operand.removeprefix("tree:").removeprefix("nar:")
    try:
        digest = Digest.parse(text)
    except ValueError as error:
        raise InputErrors.one("not a tree", detail=expected_got("tree:sha256:<64 hex>", operand)) from error
    if not store.has_tree(digest):
        raise Missing(f"tree {digest.short} is not in the store", detail=[f"tree      {digest}"])
    return digest


def _from_disk(store: LocalStore, path: Path) -> Digest:
    from derive.trees.pack import add_members
    from derive.trees.scan import scan_folder

    if path.is_dir():
        with scan_folder(path) as scan:
            members = ((name, member) for name, member in scan.members() if not _is_git(name))
            return store.add_listing(add_members(store, members))
    if not path.is_file():
        raise InputErrors.one("no such folder or archive", where=str(path))
    if not path.name.endswith(_ARCHIVES):
        detail = expected_got(" ".join(_ARCHIVES), path.name)
        raise InputErrors.one("not an archive of a source", where=str(path), detail=detail)
    return _unpacked(store, path)


def _is_git(path: bytes) -> bool:
    return b".git" in path.split(b"/")


def _unpacked(store: LocalStore, path: Path) -> Digest:
    """Unpack an archive, without the one folder that all of it lies in, if there is one; a wheel as it is."""
    from derive.archives.unpack import unpack_tar, unpack_wheel, unpack_zip
    from derive.trees.listing import Directory

    with store.blob_writer() as writer, path.open("rb") as file:
        while chunk := file.read(1 << 20):
            writer.write(chunk)
        blob = writer.commit()
    if path.name.endswith(".whl"):
        return store.add_listing(unpack_wheel(store, blob, name=path.name).listing)
    unpack = unpack_zip if path.name.endswith(".zip") else unpack_tar
    listing = unpack(store, blob, name=path.name).listing
    tops = [name for name in listing if name and b"/" not in name]
    if len(tops) == 1 and isinstance(listing[tops[0]], Directory):
        listing = listing.below(tops[0])
    return store.add_listing(listing)


def earlier_source(shop: Shop, upstream: str, series: list[Json]) -> Digest | None:
    """Return the tree that exactly this series was applied to last, by what the store remembers; None without one."""
    from derive.derivations.model import TreeOutput, parse_output
    from derive.derivations.scope import load_scope
    from derive.derivations.series import uses
    from derive.store.graph import derivations, named, outputs

    database = shop.store.database
    for name in dict.fromkeys(use.step for use in uses(load_scope(shop.project), upstream)):
        for row in reversed(named(database, name)):
            arguments, inputs = row.document["arguments"], row.document["inputs"]
            if (
                not row.builder.startswith("patch/")
                or not isinstance(arguments, Mapping)
                or not isinstance(inputs, Mapping)
            ):
                continue
            if arguments.get("series") != series:
                continue
            for source in derivations(database, row.below()).values():
                for text in outputs(database, [source]).get(source.id, {}).values():
                    output = parse_output(text)
                    if isinstance(output, TreeOutput) and shop.store.has_tree(output.digest):
                        return output.digest
    return None
