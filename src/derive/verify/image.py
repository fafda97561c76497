# SPDX-License-Identifier: Apache-2.0
"""An image to judge: its tree, the facts of its files, whose each path is, and how its paths lead.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from derive.archives.names import resolve
from derive.canonical import escape, unescape
from derive.derivations.model import TRIPLET, Platform
from derive.images.oci import ImageConfig
from derive.trees.listing import File, Listing, Symlink
from derive.verify import texts
from derive.verify.facts import NOTHING, ElfFacts, FileFacts, PackageFacts, WheelFacts
from derive.verify.findings import Finding, Owner, Rule

MACHINE: Mapping[str, int] = {"linux/amd64": 62, "linux/arm64": 183}
"""The number of a platform's machine in the headers of ELF files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A wheel of the image: the folder above its .dist-info, what it says of itself, and the paths that are its."""

    site: bytes
    info: bytes
    facts: WheelFacts
    paths: frozenset[bytes]

    @property
    def owner(self) -> Owner:
        """The wheel as the owner of paths."""
        from packaging.utils import canonicalize_name

        return Owner(kind="wheel", name=canonicalize_name(self.facts.name), version=self.facts.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A Debian package of the image, and the files and links that are its."""

    facts: PackageFacts
    paths: frozenset[bytes]

    @property
    def owner(self) -> Owner:
        """The package as the owner of paths."""
        return Owner(kind="deb", name=self.facts.name, version=self.facts.version)


@dataclass(frozen=True, kw_only=True)
class ImageTree:
    """What rules look at. ``parts`` are the trees that no package manager knows, by the name of their derivation.

    ``config`` is how a container of it is started.
    """

    name: str
    platform: Platform
    listing: Listing
    facts: Mapping[str, FileFacts]
    parts: Sequence[tuple[str, frozenset[bytes]]] = ()
    config: ImageConfig = field(default_factory=ImageConfig)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment that programs are started with."""
        return self.config.environment

    @property
    def triplet(self) -> str:
        """Debian's name of the platform in the paths of its libraries."""
        return TRIPLET[self.platform]

    @property
    def machine(self) -> int:
        """The number of the platform's machine in ELF headers."""
        return MACHINE[self.platform]

    @cached_property
    def links(self) -> Mapping[bytes, bytes]:
        """The targets of all links."""
        return {path: entry.target for path, entry in self.listing.items() if isinstance(entry, Symlink)}

    @cached_property
    def elves(self) -> Mapping[bytes, ElfFacts]:
        """Every ELF file that is no GPU code."""
        return {path: facts.elf for path, _, facts in self.located if facts.elf is not None}

    def of(self, file: File) -> FileFacts:
        """Return what is known of a file's contents."""
        return self.facts.get(file.sha256.hex, NOTHING)

    def real(self, path: bytes) -> bytes | None:
        """Return where a path leads, all links followed; None when nothing is there, or they loop."""
        end = self.led(path)
        return end if end is not None and end in self.listing else None

    def led(self, path: bytes) -> bytes | None:
        """Return where a path leads, whether or not something is there; None when links loop."""
        return resolve(path, self.links)

    @cached_property
    def located(self) -> Sequence[tuple[bytes, File, FileFacts]]:
        """Every file of which something is known."""
        pairs = ((path, file, self.facts.get(file.sha256.hex)) for path, file in self.listing.files())
        return tuple((path, file, facts) for path, file, facts in pairs if facts is not None)

    @cached_property
    def wheels(self) -> tuple[Installed, ...]:
        """The wheels that are installed: those whose .dist-info lies where Python looks for it."""
        found = []
        for path, _, facts in self.located:
            if facts.wheel is None or not texts.is_metadata(path):
                continue
            info = path.rpartition(b"/")[0]
            site = info.rpartition(b"/")[0]
            if not site.endswith((b"/dist-packages", b"/site-packages")):
                continue  # a copy that another wheel carries inside of itself
            record = self.listing.get(info + b"/RECORD")
            listed = self.of(record).paths if isinstance(record, File) else None
            paths = frozenset(_joined(site, unescape(name)) for name in listed or ())
            found.append(Installed(site=site, info=info, facts=facts.wheel, paths=paths))
        return tuple(found)

    @cached_property
    def packages(self) -> tuple[Package, ...]:
        """The Debian packages that dpkg's database has."""
        status = self.listing.get(texts.STATUS)
        known = (self.of(status).packages if isinstance(status, File) else None) or ()
        return tuple(Package(facts=one, paths=self._files_of(one)) for one in known)

    def _files_of(self, package: PackageFacts) -> frozenset[bytes]:
        for name in (package.name, f"{package.name}:{package.architecture}"):
            entry = self.listing.get(f"var/lib/dpkg/info/{name}.list".encode())
            paths = self.of(entry).paths if isinstance(entry, File) else None
            if paths is not None:
                return frozenset(path for path in map(self._shipped, paths) if path is not None)
        return frozenset()

    def _shipped(self, escaped: str) -> bytes | None:
        """Return where a file of a list lies: it may be shipped through a link, such as lib to usr/lib."""
        path = unescape(escaped)
        folder, _, name = path.rpartition(b"/")
        above = resolve(folder, self.links) if folder else b""
        real = path if not above else above + b"/" + name
        return real if isinstance(self.listing.get(real), File | Symlink) else None

    @cached_property
    def owners(self) -> Mapping[bytes, tuple[Owner, ...]]:
        """Whose each file and link is that a package manager or a derivation knows; several where several claim it."""
        found: dict[bytes, tuple[Owner, ...]] = {}
        claims = [(one.owner, one.paths) for one in self.wheels] + [(one.owner, one.paths) for one in self.packages]
        for owner, paths in claims:
            for path in paths:
                found[path] = (*found.get(path, ()), owner)
        for name, paths in self.parts:
            for path in paths - found.keys():
                found[path] = (Owner(kind="derivation", name=name),)
        return found

    def owner(self, path: bytes) -> Owner:
        """Return whose a path is; the first by name where it is claimed twice."""
        found = self.owners.get(path, ())
        return min(found, key=str) if found else Owner(kind="image", name=self.name)

    def finding(
        self,
        rule: Rule,
        path: bytes,
        what: str,
        *,
        about: str = "",
        expected: str = "",
        got: str = "",
        hint: str = "",
    ) -> Finding:
        """Return a finding about a path, with its owner."""
        return Finding(
            rule=rule,
            path=shown(path),
            owner=self.owner(path),
            what=what,
            about=about,
            expected=expected,
            got=got,
            hint=hint,
        )


def shown(path: bytes) -> str:
    """Write a path of an image for people and patterns: from its root, escaped."""
    return "/" + escape(path)


def _joined(site: bytes, name: bytes) -> bytes:
    if not name.startswith((b"..", b"/")):
        return site + b"/" + name
    parts = [] if name.startswith(b"/") else site.split(b"/")
    for part in name.split(b"/"):
        if part == b"..":
            parts = parts[:-1]
        elif part not in (b"", b"."):
            parts.append(part)
    return b"/".join(parts)
