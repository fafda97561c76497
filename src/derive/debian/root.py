# SPDX-License-Identifier: Apache-2.0
"""A Debian root from unpacked packages: their union, and what their scripts would have added as declared.

Core: no IO of its own; it reads and writes through the store that it is given.

Links that merge folders (``lib`` -> ``usr/lib``) stay links, and what packages ship through them lands behind them. The
result does not depend on the order of the packages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from derive.archives.names import merged, resolve, through_link
from derive.archives.notes import Dropped, Note
from derive.canonical import escape
from derive.debian.accounts import GROUP_MASTER, PASSWD_MASTER, account_files
from derive.debian.declaration import RootDeclaration
from derive.debian.dpkg import database, text_file
from derive.debian.package import UnpackedDeb
from derive.debian.scripts import judge_scripts
from derive.errors import InputErrors, Problem
from derive.store.protocol import Store, read_all
from derive.trees.listing import DIRECTORY, Directory, Entry, File, Listing, Symlink, parents
from derive.trees.pack import Member, NewFile, add_members

CERTIFICATES = b"usr/share/ca-certificates/"
BUNDLE = b"etc/ssl/certs/ca-certificates.crt"
_MERGED = (b"bin", b"lib", b"lib32", b"lib64", b"libo32", b"libx32", b"sbin")


@dataclass(frozen=True, slots=True, kw_only=True)
class RootPlan:
    """What a root will hold, what the log says of it, and what is wrong; with problems it is not to be written."""

    members: tuple[tuple[bytes, Member], ...]
    log: tuple[str, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    entry: Entry
    package: UnpackedDeb


def compose_root(store: Store, packages: Sequence[UnpackedDeb], declaration: RootDeclaration) -> RootPlan:
    """Compose a root; every problem of packages and declaration is in the plan, none is raised."""
    ordered = sorted(packages, key=lambda package: package.key)
    problems = list(_twice(ordered))
    log = [line for package in ordered for line in _dropped(package)]
    judgement = judge_scripts(ordered, declaration)
    tree, told = _union(ordered, declaration, problems)
    added: dict[bytes, Member] = {}
    for path, member in _additions(store, ordered, tree, declaration, problems):
        if path in tree or path in added:
            problems.append(_clash(path, tree.get(path)))
        added[path] = member
    for file in declaration.files:
        told += _declared_file(file.path, tree, added, problems)
        added[file.path] = text_file(file.text.encode())
    members: dict[bytes, Member] = {path: claim.entry for path, claim in tree.items()}
    members |= added
    problems += _structure(members)
    problems += _dangling(members, declaration)
    return RootPlan(
        members=tuple(members.items()),
        log=(*log, *judgement.log, *told),
        problems=(*problems, *judgement.problems),
    )


def build_root(
    store: Store, packages: Sequence[UnpackedDeb], declaration: RootDeclaration
) -> tuple[Listing, list[str]]:
    """Compose a root and write its new contents; returns the located listing and the lines of the log.

    Raises:
        InputErrors: with every problem of the packages and the declaration.
    """
    plan = compose_root(store, packages, declaration)
    if plan.problems:
        raise InputErrors(plan.problems)
    return add_members(store, plan.members), list(plan.log)


def _twice(ordered: Sequence[UnpackedDeb]) -> Iterator[Problem]:
    for one, other in pairwise(ordered):
        if one.label == other.label:
            detail = (f"versions  {one.stanza.version}, {other.stanza.version}",)
            yield Problem(where=one.label, message="the same package twice in a root", detail=detail)


def _dropped(package: UnpackedDeb) -> Iterator[str]:
    for note in package.notes:
        what = f"dropped {note.what}" if isinstance(note, Dropped) else "given twice, the last is kept"
        yield f"{package.label}: {what}: /{escape(_shipped(note))}"


def _shipped(note: Note) -> bytes:
    return note.path.removeprefix(b"data/") if note.path.startswith(b"data/") else note.path


def _union(
    ordered: Sequence[UnpackedDeb], declaration: RootDeclaration, problems: list[Problem]
) -> tuple[dict[bytes, _Claim], list[str]]:
    merge = _merge_map(ordered)
    winners = {rule.path: rule.package for rule in declaration.replaces}
    used: set[bytes] = set()
    tree: dict[bytes, _Claim] = {}
    told: list[str] = []
    for package in ordered:
        for shipped, entry in package.data.items():
            claim = _Claim(entry=entry, package=package)
            path = merge[shipped] if shipped in merge and isinstance(entry, Directory) else merged(shipped, merge)
            before = tree.setdefault(path, claim)
            if before.entry == entry:
                continue
            winner = winners.get(path)
            names = (before.package.stanza.package, package.stanza.package)
            if winner in names and names[0] != names[1]:
                used.add(path)
                tree[path] = before if winner == names[0] else claim
                told.append(f"declared: /{escape(path)} is {winner}'s, not {names[winner == names[0]]}'s")
            else:
                problems.append(_collision(path, before, claim))
    problems += [
        Problem(
            where=f"replaces./{escape(path)}", message="no two packages give this path differently", hint="remove it"
        )
        for path in winners
        if path not in used
    ]
    return tree, told


def _merge_map(ordered: Sequence[UnpackedDeb]) -> dict[bytes, bytes]:
    """Return the top folders that a package links into usr: where things shipped through them really lie."""
    return {path: target for package in ordered for path, target in merged_folders(package.data).items()}


def merged_folders(tree: Mapping[bytes, Entry]) -> dict[bytes, bytes]:
    """Return the top folders that a tree links to the folder of the same name in usr, each with that folder."""
    return {
        path: b"usr/" + path
        for path in _MERGED
        if tree.get(path) in (Symlink(b"usr/" + path), Symlink(b"/usr/" + path))
    }


def _collision(path: bytes, before: _Claim, claim: _Claim) -> Problem:
    return Problem(
        where=f"/{escape(path)}",
        message="two packages give this path differently",
        detail=tuple(f"{c.package.label}  {_describe(c.entry)}" for c in (before, claim)),
        hint="say under replaces which package's is kept",
    )


def _describe(entry: Entry) -> str:
    match entry:
        case File(executable, size, digest):
            return f"{'executable' if executable else 'file'} of {size} bytes, {digest.short}"
        case Symlink(target):
            return f"link to {escape(target)}"
        case Directory():
            return "folder"


def _additions(
    store: Store,
    ordered: Sequence[UnpackedDeb],
    tree: Mapping[bytes, _Claim],
    declaration: RootDeclaration,
    problems: list[Problem],
) -> Iterator[tuple[bytes, Member]]:
    masters = [_contents(store, tree, path) for path in (PASSWD_MASTER, GROUP_MASTER)]
    accounts = account_files(masters[0], masters[1], declaration.accounts, declaration.groups)
    problems += accounts.problems
    if accounts.passwd or accounts.group:
        yield b"etc/passwd", text_file(accounts.passwd)
        yield b"etc/group", text_file(accounts.group)
    for alternative in declaration.alternatives:
        yield alternative.link, Symlink(b"/etc/alternatives/" + alternative.name)
        yield b"etc/alternatives/" + alternative.name, Symlink(b"/" + alternative.target)
    certificates = sorted(p for p in tree if p.startswith(CERTIFICATES) and p.endswith(b".crt"))
    files = [entry for entry in (tree[path].entry for path in certificates) if isinstance(entry, File)]
    if files:
        yield BUNDLE, NewFile(executable=False, chunks=_bundle(store, files))
    yield from database(store, ordered, declaration.architecture)


def _contents(store: Store, tree: Mapping[bytes, _Claim], path: bytes) -> bytes:
    claim = tree.get(path)
    return read_all(store, claim.entry) if claim is not None and isinstance(claim.entry, File) else b""


def _bundle(store: Store, certificates: Sequence[File]) -> Iterator[bytes]:
    for file in certificates:
        text = read_all(store, file)
        yield text if text.endswith(b"\n") else text + b"\n"


def _declared_file(
    path: bytes, tree: Mapping[bytes, _Claim], added: Mapping[bytes, Member], problems: list[Problem]
) -> list[str]:
    """Return a line for the log when a declared file takes the place of a package's."""
    claim = tree.get(path)
    if path in added or (claim is not None and isinstance(claim.entry, Directory)):
        problems.append(_clash(path, claim))
        return []
    return [] if claim is None else [f"declared: /{escape(path)} is the declaration's, not {claim.package.label}'s"]


def _clash(path: bytes, claim: _Claim | None) -> Problem:
    by = f"given by {claim.package.label}" if claim is not None else "written by this builder"
    return Problem(where=f"/{escape(path)}", message="a declared path that is there already", detail=(by,))


def _structure(members: Mapping[bytes, Member]) -> Iterator[Problem]:
    """Yield what keeps the members from being a tree: paths through links, and paths below files."""
    links = {path: member.target for path, member in members.items() if isinstance(member, Symlink)}
    if led := through_link(members, links):
        message = f"a path that goes through the link /{escape(led[1])}"
        yield Problem(where=f"/{escape(led[0])}", message=message)
    for path in members:
        above = next((p for p in parents(path) if isinstance(members.get(p, DIRECTORY), File | NewFile)), None)
        if above is not None:
            yield Problem(where=f"/{escape(path)}", message=f"a path below the file /{escape(above)}")


def _dangling(members: Mapping[bytes, Member], declaration: RootDeclaration) -> Iterator[Problem]:
    """Yield the declared alternatives that lead to nothing."""
    links = {path: member.target for path, member in members.items() if isinstance(member, Symlink)}
    for alternative in declaration.alternatives:
        end = resolve(alternative.target, links)
        if end is None or end not in members:
            where = f"alternatives./{escape(alternative.link)}"
            yield Problem(where=where, message=f"leads to /{escape(alternative.target)}, which is not in the root")
