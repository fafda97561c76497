# SPDX-License-Identifier: Apache-2.0
"""Native code: every ELF file is for the platform, and every library and symbol version that it needs is there.

Core: no IO.

The loader looks for a library as glibc's does, from what stands in the file alone: nothing of the process that loads it
is known, but for what the image's verify file declares as loaded before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from derive.verify.facts import ElfFacts
from derive.verify.findings import Finding, Rule
from derive.verify.image import ImageTree, shown

if TYPE_CHECKING:
    from derive.verify.declarations import LoadedDecl, VerifyDecl

_CACHE = b"etc/ld.so.cache"
_LOADED = frozenset({"EXEC", "DYN"})


@dataclass(frozen=True, slots=True)
class _Provided:
    """A library that something in the image gives: where it lies, None for what the driver's mounts give."""

    path: bytes | None


class Loader:
    """Finds libraries in an image as the dynamic loader does."""

    def __init__(self, image: ImageTree) -> None:
        self._image = image
        variable = image.environment.get("LD_LIBRARY_PATH", "")
        self._variable = [part for part in variable.split(":") if part]
        triplet = image.triplet
        # The folders of ld.so.conf are those of its cache alone: without one, only what is built in is looked at.
        self._default = [f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib", "/usr/lib"]
        self._default += ["/usr/local/lib", f"/usr/local/lib/{triplet}"] if _CACHE in image.listing else []

    def find(self, path: bytes, elf: ElfFacts, name: str) -> bytes | None:
        """Return the library that the loader takes for a name that a file at a path needs."""
        if "/" in name:
            return self._fitting(name.encode("utf-8", "surrogateescape"))
        own = elf.runpath or elf.rpath
        before = [*self._variable, *own] if elf.runpath else [*own, *self._variable]
        origin = path.rpartition(b"/")[0]
        for folder in [*before, *self._default]:
            found = self._fitting(_expanded(folder, origin) + b"/" + name.encode("utf-8", "surrogateescape"))
            if found is not None:
                return found
        return None

    def _fitting(self, path: bytes) -> bytes | None:
        """Return the file at a path when it is one that the loader takes: others are passed over."""
        real = self._image.real(path)
        elf = self._image.elves.get(real) if real is not None else None
        return real if elf is not None and (elf.machine, elf.bits) == (self._image.machine, 64) else None


def platform_findings(image: ImageTree) -> Iterator[Finding]:
    """Yield ELF files that are not for the image's platform, or cannot be read."""
    for path, elf in image.elves.items():
        if elf.broken is not None:
            what, hint = "an ELF file that cannot be read", "look whether its archive is whole: derive store verify"
            yield image.finding(Rule.PLATFORM, path, what, got=elf.broken, hint=hint)
        elif (elf.machine, elf.bits, elf.is_little) != (image.machine, 64, True):
            yield image.finding(
                Rule.PLATFORM,
                path,
                f"an ELF file that is not for {image.platform}",
                about=f"machine {elf.machine}",
                expected=f"machine {image.machine}, 64 bits, little-endian",
                got=f"machine {elf.machine}, {elf.bits} bits, {'little' if elf.is_little else 'big'}-endian",
                hint="leave it out of the image, or say in an exception why it is never loaded",
            )
    for path, _, facts in image.located:
        for one in facts.objects or ():
            if (one.machine, one.bits, one.is_little) != (image.machine, 64, True):
                yield image.finding(
                    Rule.PLATFORM,
                    path,
                    f"a static archive with objects that are not for {image.platform}",
                    about=f"machine {one.machine}",
                    expected=f"machine {image.machine}, 64 bits, little-endian",
                    got=f"machine {one.machine}, {one.bits} bits, {'little' if one.is_little else 'big'}-endian",
                    hint="leave it out of the image, or say in an exception why nothing is linked with it",
                )


def library_findings(image: ImageTree, declared: VerifyDecl) -> Iterator[Finding]:
    """Yield libraries and symbol versions that files need and the image does not give."""
    loader = Loader(image)
    by_name = _by_name(image)
    for path, elf in image.elves.items():
        if elf.broken is not None or elf.machine != image.machine or elf.type not in _LOADED:
            continue
        if elf.interpreter is not None and loader.find(path, elf, elf.interpreter) is None:
            yield image.finding(
                Rule.LIBRARY,
                path,
                "a program whose loader is not in the image",
                about=elf.interpreter,
                got=elf.interpreter,
                hint="add the package that has it, or leave the program out",
            )
        for name in elf.needed:
            found = _provided(image, declared, loader, by_name, path, name)
            if found is None:
                yield _absent(image, path, name, by_name.get(name, ()))
            elif found.path is not None:
                yield from _version_findings(image, path, elf, name, found.path)


def _provided(
    image: ImageTree,
    declared: VerifyDecl,
    loader: Loader,
    by_name: dict[str, list[bytes]],
    path: bytes,
    name: str,
) -> _Provided | None:
    found = loader.find(path, image.elves[path], name)
    if found is not None:
        return _Provided(found)
    if any(fnmatchcase(name, pattern) for pattern in declared.driver.libraries):
        return _Provided(None)
    for loaded in declared.loaded:
        if is_loaded_before(loaded, image, path, name) and by_name.get(name):
            return _Provided(by_name[name][0])
    return None


def is_loaded_before(loaded: LoadedDecl, image: ImageTree, path: bytes, name: str) -> bool:
    """Say whether a declaration speaks of this library, for this file."""
    owner = image.owner(path).name
    is_for = any(fnmatchcase(owner, pattern) for pattern in loaded.users)
    return is_for and any(fnmatchcase(name, pattern) for pattern in loaded.libraries)


def _by_name(image: ImageTree) -> dict[str, list[bytes]]:
    """Return where libraries lie, by the names under which they can be loaded: that of the file, or their SONAME."""
    found: dict[str, list[bytes]] = {}
    for path, elf in image.elves.items():
        if elf.machine == image.machine and elf.type == "DYN":
            names = {path.rpartition(b"/")[2].decode("utf-8", "surrogateescape"), elf.soname or ""}
            for name in sorted(names - {""}):
                found.setdefault(name, []).append(path)
    return found


def _absent(image: ImageTree, path: bytes, name: str, elsewhere: Sequence[bytes]) -> Finding:
    where = f"{shown(elsewhere[0])} has it, where the loader does not look" if elsewhere else "not in the image"
    hint = "add the package that has it, or leave the file out"
    if elsewhere:
        hint = "declare under [[loaded]] what loads it before, or say in an exception why the file is never loaded"
    return image.finding(Rule.LIBRARY, path, f"needs {name}, which is not found", about=name, got=where, hint=hint)


def _version_findings(image: ImageTree, path: bytes, elf: ElfFacts, name: str, library: bytes) -> Iterator[Finding]:
    defines = image.elves[library].defines
    lacking = [version for version in elf.needs.get(name, ()) if version not in defines]
    if lacking:
        newest = [version for version in defines if version.partition("_")[0] == lacking[-1].partition("_")[0]]
        yield image.finding(
            Rule.SYMBOL,
            path,
            f"needs versions that {shown(library)} does not define",
            about=name,
            expected=", ".join(lacking),
            got=f"{len(defines)} versions, the last {max(newest, key=_version_key)}" if newest else "no such version",
            hint="take a newer package of that library, or a build of this one for an older system",
        )


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.rpartition("_")[2].split(".") if part.isdecimal())


def _expanded(folder: str, origin: bytes) -> bytes:
    raw = folder.encode("utf-8", "surrogateescape")
    return raw.replace(b"${ORIGIN}", b"/" + origin).replace(b"$ORIGIN", b"/" + origin)
