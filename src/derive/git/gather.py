# SPDX-License-Identifier: Apache-2.0
"""A commit and its submodules in scratch repositories, on the way into one tree with one proof.

Edge: git, the network, the file system, the store.
"""

from __future__ import annotations

import errno
import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from derive.canonical import Digest, escape
from derive.errors import Corrupt, InputErrors, Problem
from derive.git.contents import LARGEST_POINTER, MODULES_FILE, GitContents, Leaf, is_pointer, parse_modules, walk
from derive.git.failures import GitFailure, Subject, no_space
from derive.git.model import SubmodulePin, check_url
from derive.git.objects import LINK, PROGRAM, ObjectError, tree_of
from derive.git.places import Place, base_name, is_folder, join_url, places, submodule_places
from derive.git.program import Session
from derive.git.proof import GitProof
from derive.git.reader import AbsentObject, ObjectReader
from derive.git.scratch import Scratch, Sought, first_that_gives
from derive.store.protocol import Store
from derive.trees.listing import DIRECTORY, Listing, ListingError, Symlink
from derive.trees.pack import Member, NewFile, add_members


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodules:
    """Which submodules are fetched (all, none, or these escaped paths), and what their URLs are replaced by."""

    wanted: bool | frozenset[str]
    urls: Mapping[str, str]
    mirrors: Sequence[str]

    def includes(self, path: bytes) -> bool:
        """Say whether the submodule at a path is fetched."""
        return self.wanted if isinstance(self.wanted, bool) else escape(path) in self.wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One repository's share of a tree: the folder it lies in, its commit, and what that holds.

    ``around``: where this repository is served, its own place first; relative submodules are found from there.
    """

    prefix: bytes
    scratch: Scratch
    commit: str
    raw: bytes
    tree: str
    contents: GitContents
    around: tuple[Place, ...]

    def path(self, below: bytes) -> bytes:
        """Return a path of this repository as the whole has it."""
        return self.prefix + b"/" + below if self.prefix else below


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What lies in the store now: the tree, its proof, bytes of all files, escaped paths of Git LFS pointers."""

    tree: Digest
    proof: Digest
    size: int
    pointers: tuple[str, ...]


@dataclass(slots=True)
class Gathering:
    """Collects the parts of one upstream's tree; ``notes`` is what a person should know of how."""

    session: Session
    folder: Path
    name: str
    mode: Submodules
    parts: list[Part] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def take(self, scratch: Scratch, around: tuple[Place, ...], commit: str) -> None:
        """Read the trees of a commit that is there, then bring its submodules, those inside others too.

        Raises:
            InputErrors: what no tree of ours can hold, or a submodule without a URL: all of one repository at once.
            UpstreamGone, Unavailable: a submodule's commit cannot be had.
        """
        waiting = deque([self._read(scratch, commit, b"", around)])
        while waiting:
            part = waiting.popleft()
            self.parts.append(part)
            waiting += self._submodules(part)
        links = {escape(path) for path, _ in self._links()}
        strange = sorted(set(self.mode.urls) - links)
        if strange:
            where = f"{self.name}: submodule-urls"
            raise InputErrors([Problem(where=where, message=f"no submodule lies at {path}") for path in strange])

    def pins(self) -> tuple[SubmodulePin, ...]:
        """Return the submodules that were brought, sorted."""
        found = [SubmodulePin(path=escape(part.prefix), commit=part.commit, tree=part.tree) for part in self.parts[1:]]
        return tuple(sorted(found))

    def keep(self, store: Store, tags: tuple[bytes, ...]) -> Kept:
        """Write contents and proof into the store."""
        pointers: list[str] = []
        members = itertools.chain.from_iterable(self._members(part, pointers) for part in self.parts)
        try:
            listing: Listing = add_members(store, members)
        except (AbsentObject, ListingError) as error:
            raise Corrupt(f"{self.name}: the repository is not whole: {error}") from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise no_space(self.name) from error
            raise
        proof = GitProof(
            commit=self.parts[0].raw,
            tags=tags,
            links=dict(self._links()),
            submodules={part.prefix: part.raw for part in self.parts[1:]},
            modes={part.path(path): mode for part in self.parts for path, mode in part.contents.modes.items()},
        )
        with store.blob_writer() as writer:
            writer.write(proof.encoded())
            kept = writer.commit()
        tree = store.add_listing(listing)
        return Kept(tree=tree, proof=kept, size=listing.size, pointers=tuple(sorted(pointers)))

    def _read(self, scratch: Scratch, commit: str, prefix: bytes, around: tuple[Place, ...]) -> Part:
        where = f"{self.name} {commit[:12]}{': ' + escape(prefix) if prefix else ''}"
        try:
            with scratch.reader() as reader:
                raw = reader.read("commit", commit)
                tree = tree_of(raw)
                contents = walk(tree, lambda ids: reader.read_all("tree", ids), where)
        except AbsentObject as error:
            raise Corrupt(f"{where}: the repository is not whole: no object {error}") from error
        except ObjectError as error:
            raise InputErrors.one(str(error), where=where) from error
        return Part(prefix=prefix, scratch=scratch, commit=commit, raw=raw, tree=tree, contents=contents, around=around)

    def _links(self) -> Iterator[tuple[bytes, str]]:
        for part in self.parts:
            for path, commit in part.contents.links.items():
                yield part.path(path), commit

    def _submodules(self, part: Part) -> Iterator[Part]:
        """Bring a part's submodules, one after the other."""
        wanted = {path: commit for path, commit in part.contents.links.items() if self.mode.includes(part.path(path))}
        if not wanted:
            return
        urls = self._urls(part)
        where = f"{self.name} {part.commit[:12]}"
        problems = [_without_url(where, part.path(path)) for path in wanted if path not in urls]
        problems += [
            Problem(where=f"{where}: {escape(part.path(path))}", message=fault)
            for path in wanted
            if path in urls and (fault := _fault_of(join_url(part.around[0].url, urls[path])))
        ]
        if problems:
            raise InputErrors(problems)
        for path, commit in wanted.items():
            yield self._submodule(part, part.path(path), urls[path], commit)

    def _urls(self, part: Part) -> dict[bytes, str]:
        """Return the URLs of a part's submodules, by path in the part."""
        leaf = part.contents.leaf(MODULES_FILE)
        found = _modules(self.name, part, leaf) if leaf is not None else {}
        for path in part.contents.links:
            override = self.mode.urls.get(escape(part.path(path)))
            if override is not None:
                found[path] = override
        return found

    def _submodule(self, part: Part, path: bytes, url: str, commit: str) -> Part:
        if escape(path) in self.mode.urls:
            asked = places((url,), self.mode.mirrors, base_name(url))
            own = Place(url, local=is_folder(url))
        else:
            asked = submodule_places(url, part.around, self.mode.mirrors)
            resolved = join_url(part.around[0].url, url)
            own = Place(resolved, local=is_folder(resolved) and part.around[0].local)
        label = f"{self.name}/{escape(path)}"
        scratch = Scratch(self.session, self.folder / f"submodule-{next(self.numbers)}", label)
        subject = Subject(name=self.name, what=f"submodule {escape(path)} at commit {commit}", submodule=True)
        sought = Sought(commit=commit)
        place, note = first_that_gives(asked, subject, lambda place: scratch.bring(place, sought))
        if note is not None:
            self.notes.append(f"submodule {escape(path)}: {note}")
        return self._read(scratch, commit, path, (own, place))

    def _members(self, part: Part, pointers: list[str]) -> Iterator[tuple[bytes, Member]]:
        """Yield what a part puts into the tree; each file's contents are to be read before the next is asked for."""
        for path in (*part.contents.empty, *part.contents.links):
            yield part.path(path), DIRECTORY
        with part.scratch.reader() as reader:
            yield from self._contents(part, reader, pointers)

    def _contents(self, part: Part, reader: ObjectReader, pointers: list[str]) -> Iterator[tuple[bytes, Member]]:
        leaves = part.contents.leaves
        for leaf, found in zip(leaves, reader.stream("blob", [leaf.id for leaf in leaves]), strict=True):
            self.session.stop_when_asked()
            path = part.path(leaf.path)
            if leaf.mode == LINK:
                yield path, Symlink(_target(f"{self.name} {part.commit[:12]}", path, b"".join(found.chunks)))
            elif found.size > LARGEST_POINTER:
                yield path, NewFile(leaf.mode == PROGRAM, found.chunks)
            else:
                data = b"".join(found.chunks)
                if is_pointer(data):
                    pointers.append(escape(path))
                yield path, NewFile(leaf.mode == PROGRAM, (data,))


def _modules(name: str, part: Part, leaf: Leaf) -> dict[bytes, str]:
    where = f"{name} {part.commit[:12]}: {escape(part.path(MODULES_FILE))}"
    if leaf.mode == LINK:
        raise InputErrors.one("a symbolic link, which git does not follow", where=where)
    with part.scratch.reader() as reader:
        data = reader.read("blob", leaf.id)
    # Git writes no ids into a repository's folder under this name.
    file = part.scratch.git.folder / "derive-modules"
    file.write_bytes(data)
    try:
        return parse_modules(part.scratch.git.local("config", "--file", str(file), "--no-includes", "--list", "-z"))
    except GitFailure as failure:
        raise InputErrors.one(f"cannot be read: {failure.reason}", where=where) from failure


def _fault_of(url: str) -> str:
    """Return what is wrong with a submodule's URL, or nothing."""
    try:
        check_url(url)
    except ValueError as error:
        return str(error)
    return ""


def _without_url(where: str, path: bytes) -> Problem:
    return Problem(
        where=f"{where}: {escape(path)}",
        message="a submodule for which .gitmodules gives no URL",
        hint="name one in submodule-urls, or set submodules = false",
    )


def _target(where: str, path: bytes, target: bytes) -> bytes:
    if not target or b"\0" in target or len(target) > 4095:
        raise InputErrors.one("a symbolic link that leads nowhere that has a name", where=f"{where}: {escape(path)}")
    return target
