# SPDX-License-Identifier: Apache-2.0
"""Resolving a Debian set: apt chooses, its signed indices give the hashes, the packages themselves the licences.

Edge: apt, the network, the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from derive.canonical import Digest
from derive.errors import InputErrors, Problem, Unavailable
from derive.lock.apt import AptSource, NoSolution, PrivateRoot, Scope, no_solution
from derive.lock.contents import UNSTATED, DocFolder, deb_member, doc_folder, packaging_file, source_licence
from derive.lock.documents import DebEntry, DebianLock, SourceEntry
from derive.lock.keep import Keep, MoveNames, stays
from derive.lock.records import BinaryRecord, SourceRecord, binaries, copyright_licence, sources
from derive.lock.tools import Tools
from derive.lock.wishes import ClosureDecl, DebianWish, SourceDecl, wish_digest
from derive.net.places import DebPath, Wanted, archive_of

_Solved = dict[str, dict[str, tuple[str, ...]]]
_Found = Mapping[str, tuple[BinaryRecord, str]]


def resolve_debian(
    wish: DebianWish, *, name: str, where: str, locked: DebianLock | None, keep: Keep, tools: Tools
) -> DebianLock:
    """Find everything that a wish wants, keeping what ``keep`` says of what is locked.

    ``where`` is the wish file, named in problems.

    Raises:
        InputErrors: packages or versions that the suites do not have, closures that cannot be installed.
        Corrupt: an archive's signature, or a file's hash, is wrong.
        Unavailable: mirrors, apt or an archive are not there.
    """
    with private_root(wish, tools, wish.all_suites) as root:
        scope = scope_of(wish)
        moving = _with_siblings(keep, locked, root, scope)
        solved = _solve(root, wish, where=where, locked=locked, keep=moving, tools=tools)
        found = _records(root, scope, solved)
        source_entries = _sources(root, scope, wish, where=where, locked=locked, keep=moving)
    entries = [_entry(record, suite) for record, suite in found.values()]
    known = {e.sha256: e.licence for e in locked.debs} if locked else {}
    debs = _with_licences(entries, known, tools)
    files = {entry.locator: entry.file for entry in debs}
    closures = {
        closure: {a: tuple(sorted(files[path] for path in paths)) for a, paths in by_architecture.items()}
        for closure, by_architecture in solved.items()
    }
    licensed = [_with_source_licence(entry, tools) for entry in source_entries]
    return DebianLock(
        set=name,
        wish=wish_digest(wish),
        debs=tuple(sorted(debs, key=lambda entry: entry.key)),
        sources=tuple(sorted(licensed, key=lambda entry: entry.key)),
        closures=closures,
    )


def scope_of(wish: DebianWish) -> Scope:
    """Return everything that a wish looks at."""
    every = [a for c in wish.closures.values() for a in (*c.architectures, *c.foreign)]
    return Scope(
        architectures=tuple(sorted(set(every))) or ("amd64",),
        binaries=bool(wish.closures),
        sources=wish.sources is not None,
    )


@contextmanager
def private_root(wish: DebianWish, tools: Tools, suites: Sequence[str]) -> Iterator[PrivateRoot]:
    """Yield a private root with the indices of the suites, from the first archive that serves them.

    Raises:
        HostRefuses, Unavailable, Corrupt: no archive is configured, none answers, or a signature is wrong.
    """
    archives = tools.mirrors.debian()
    secure = tuple(suite for suite in suites if archive_of(suite) == "debian-security")
    plain = tuple(suite for suite in suites if suite not in secure)
    security = tools.mirrors.security() if secure else ()
    keyring = _keyring(wish, tools)
    for index, mirror in enumerate(archives):
        chosen = [AptSource(mirror=mirror, suites=plain, components=wish.components)] if plain else []
        if secure:
            beside = security[min(index, len(security) - 1)]
            chosen.append(AptSource(mirror=beside, suites=secure, components=wish.components))
        with tempfile.TemporaryDirectory(prefix="derive-apt-") as folder:
            root = PrivateRoot(Path(folder), sources=chosen, keyring=keyring)
            try:
                root.update(scope_of(wish))
            except Unavailable as error:
                if index + 1 == len(archives):
                    raise
                tools.progress.note(f"{error.message}: the next archive is tried")
                continue
            yield root
            return


def _keyring(wish: DebianWish, tools: Tools) -> bytes:
    decl = wish.keyring
    name, _, rest = decl.locator.rpartition("/")[2].partition("_")
    wanted = Wanted(
        name=name,
        version=rest.partition("_")[0],
        locator=DebPath(archive="debian", path=decl.locator),
        sha256=Digest(decl.sha256),
        size=decl.size,
    )
    return deb_member(tools.store, tools.fetcher.fetch(wanted), decl.member)


def _with_siblings(keep: Keep, locked: DebianLock | None, root: PrivateRoot, scope: Scope) -> Keep:
    """Packages of one source are released together: where one moves, the others must be free to follow."""
    if not isinstance(keep, MoveNames) or locked is None:
        return keep
    names = {entry.name for entry in locked.debs}
    source_of: dict[str, str] = {}
    for index in root.indices(scope):
        if not index.sources:
            source_of.update({record.name: record.source for record in binaries(index.pieces(), names)})
    moving = {source_of[name] for name in keep.names if name in source_of}
    return MoveNames(keep.names | {name for name, source in source_of.items() if source in moving})


def _solve(
    root: PrivateRoot, wish: DebianWish, *, where: str, locked: DebianLock | None, keep: Keep, tools: Tools
) -> _Solved:
    solved: _Solved = {}
    problems: list[Problem] = []
    for closure, decl in sorted(wish.closures.items()):
        solved[closure] = {}
        for architecture in sorted(decl.architectures):
            pins = _pins(locked, closure, architecture, keep)
            try:
                solved[closure][architecture] = _solve_one(root, decl, architecture, pins, tools)
            except NoSolution as error:
                problems.extend(no_solution(error, decl.packages, f"{where}: closures.{closure}").problems())
    if problems:
        raise InputErrors(problems)
    return solved


def _solve_one(
    root: PrivateRoot, decl: ClosureDecl, architecture: str, pins: Mapping[str, str], tools: Tools
) -> tuple[str, ...]:
    scope = Scope(architectures=(architecture, *sorted(decl.foreign)))
    essential = [f"?and(?essential,?architecture({architecture}))"] if decl.essential else []
    packages = [*essential, *sorted(decl.packages)]
    try:
        return root.solve(packages, scope, pins)
    except NoSolution:
        if not pins:
            raise
    solved = root.solve(packages, scope, {})
    tools.progress.note(f"what is locked for {architecture} does not go together any more: it was resolved afresh")
    return solved


def _pins(locked: DebianLock | None, closure: str, architecture: str, keep: Keep) -> dict[str, str]:
    if locked is None or architecture not in locked.closures.get(closure, {}):
        return {}
    return {
        entry.name if entry.architecture == "all" else f"{entry.name}:{entry.architecture}": entry.version
        for entry in locked.closure(closure, architecture)
        if stays(keep, entry.name)
    }


def _records(root: PrivateRoot, scope: Scope, solved: _Solved) -> _Found:
    """Look up every chosen file in the signed indices: pool path -> record and suite."""
    wanted = {path for by_architecture in solved.values() for paths in by_architecture.values() for path in paths}
    names = {path.rpartition("/")[2].partition("_")[0] for path in wanted}
    found: dict[str, tuple[BinaryRecord, str]] = {}
    for index in root.indices(scope):
        if not index.sources:
            for record in binaries(index.pieces(), names):
                if record.locator in wanted:
                    found.setdefault(record.locator, (record, index.suite))
    lost = sorted(wanted - set(found))
    if lost:
        raise Unavailable("the archive's indices changed while they were read", detail=lost[:10], hint="run it again")
    return found


def _entry(record: BinaryRecord, suite: str) -> DebEntry:
    return DebEntry(
        name=record.name,
        version=record.version,
        architecture=record.architecture,
        file=record.locator.rpartition("/")[2],
        locator=record.locator,
        suite=suite,
        size=record.size,
        sha256=record.sha256,
        licence="",
        multi_arch=record.multi_arch,
    )


def _with_licences(entries: Sequence[DebEntry], known: Mapping[Digest, str], tools: Tools) -> list[DebEntry]:
    from dataclasses import replace

    unknown = [entry for entry in entries if entry.sha256 not in known]
    tools.fetcher.fetch_all(entry.wanted() for entry in unknown)
    with ThreadPoolExecutor(max_workers=4) as pool:
        read = list(pool.map(lambda entry: doc_folder(tools.store, entry.sha256, entry.name), unknown))
    docs = {(entry.name, entry.architecture): doc for entry, doc in zip(unknown, read, strict=True)}
    by_name = {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.key)}

    def licence(entry: DebEntry, seen: frozenset[str] = frozenset()) -> str:
        if entry.sha256 in known:
            return known[entry.sha256]
        doc = docs.get((entry.name, entry.architecture), DocFolder(copyright=None, elsewhere=None))
        if doc.copyright is not None:
            return copyright_licence(doc.copyright) or UNSTATED
        other = by_name.get(doc.elsewhere or "")
        if other is None or other.name in seen:
            return UNSTATED
        return licence(other, seen | {entry.name})

    return [replace(entry, licence=licence(entry)) for entry in entries]


def _sources(
    root: PrivateRoot, scope: Scope, wish: DebianWish, *, where: str, locked: DebianLock | None, keep: Keep
) -> list[SourceEntry]:
    """Choose the source packages. A locked one is kept as it is: nothing else depends on its version."""
    if wish.sources is None:
        return []
    before = {entry.name: entry for entry in locked.sources} if locked else {}
    names = {decl.name for decl in wish.sources.packages}
    served: dict[str, list[tuple[SourceRecord, str]]] = {name: [] for name in names}
    for index in root.indices(scope):
        if index.sources:
            for record in sources(index.pieces(), names):
                served[record.name].append((record, index.suite))
    chosen: list[SourceEntry] = []
    problems: list[Problem] = []
    for position, decl in enumerate(wish.sources.packages):
        old = before.get(decl.name)
        if old is not None and stays(keep, decl.name) and decl.version in (None, old.version):
            chosen.append(old)
            continue
        found = _newest(served[decl.name], decl)
        if found is None:
            problems.append(_no_source(decl, served[decl.name], f"{where}: sources.packages[{position}]"))
        else:
            record, suite = found
            chosen.append(
                SourceEntry(name=record.name, version=record.version, suite=suite, files=record.files, licence="")
            )
    if problems:
        raise InputErrors(problems)
    return chosen


def _newest(served: Sequence[tuple[SourceRecord, str]], decl: SourceDecl) -> tuple[SourceRecord, str] | None:
    from debian.debian_support import Version

    fitting = [item for item in served if decl.version in (None, item[0].version)]
    return max(fitting, key=lambda item: Version(item[0].version), default=None)


def _no_source(decl: SourceDecl, served: Sequence[tuple[SourceRecord, str]], where: str) -> Problem:
    versions = ", ".join(sorted({record.version for record, _ in served})) or "none"
    message = "no such source package in the suites" if not served else "no such version in the suites"
    got = f"got       {decl.name}{f' {decl.version}' if decl.version else ''}"
    return Problem(where=where, message=message, detail=(f"served    {versions}", got))


def _with_source_licence(entry: SourceEntry, tools: Tools) -> SourceEntry:
    from dataclasses import replace

    if entry.licence:
        return entry
    packaging = packaging_file([item.file for item in entry.files])
    wanted = next((item for item in entry.wanted() if item.file == packaging), None)
    if wanted is None:
        return replace(entry, licence=UNSTATED)
    return replace(entry, licence=source_licence(tools.store, tools.fetcher.fetch(wanted)))
