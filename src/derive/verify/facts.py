# SPDX-License-Identifier: Apache-2.0
"""What a probe says of one file's contents. A file of which there is nothing to say has no facts.

Core: no IO. The document is on docs/verify.md; a change of it needs a new version of the builder ``facts``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from derive.canonical import Json
from derive.verify.architectures import GpuCode, parse_code


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """GPU code in a file: each set of architectures for which some code is there, with the number of such codes."""

    units: tuple[tuple[tuple[GpuCode, ...], int], ...]

    @property
    def codes(self) -> frozenset[GpuCode]:
        """All architectures in the file."""
        return frozenset(code for codes, _ in self.units for code in codes)

    @property
    def count(self) -> int:
        """How many codes there are."""
        return sum(count for _, count in self.units)

    def document(self) -> Json:
        """Return it as it stands among a tree's facts."""
        return [{"for": [str(code) for code in codes], "count": count} for codes, count in self.units]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElfFacts:
    """An ELF file as the loader sees it. ``machine`` is the number in its header; ``bits`` 32 or 64.

    ``needs`` has the symbol versions required of each library, but for weak ones; ``defines`` those that it has itself.
    ``broken`` says why it cannot be read, and then nothing else is known.
    """

    bits: int = 0
    is_little: bool = True
    machine: int = 0
    type: str = ""
    interpreter: str | None = None
    soname: str | None = None
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    needs: Mapping[str, tuple[str, ...]]
    defines: tuple[str, ...] = ()
    broken: str | None = None

    def document(self) -> Json:
        """Return it as it stands among a tree's facts: what it does not have is left out."""
        found: dict[str, Json] = {
            "bits": self.bits,
            "little": self.is_little,
            "machine": self.machine,
            "type": self.type,
            "interpreter": self.interpreter,
            "soname": self.soname,
            "needed": list(self.needed),
            "rpath": list(self.rpath),
            "runpath": list(self.runpath),
            "needs": {name: list(versions) for name, versions in self.needs.items()},
            "defines": list(self.defines),
            "broken": self.broken,
        }
        return {key: value for key, value in found.items() if value not in (None, [], {}, "")}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ObjectFacts:
    """For what some objects of a static archive are, as in the headers of ELF files."""

    machine: int
    bits: int
    is_little: bool

    def document(self) -> Json:
        """Return it as it stands among a tree's facts."""
        return {"machine": self.machine, "bits": self.bits, "little": self.is_little}


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFacts:
    """A distribution's METADATA. ``licence`` is ``unknown`` where it says nothing usable."""

    name: str
    version: str
    requires: tuple[str, ...]
    requires_python: str | None
    licence: str

    def document(self) -> Json:
        """Return it as it stands among a tree's facts."""
        return {
            "name": self.name,
            "version": self.version,
            "requires": list(self.requires),
            "requires-python": self.requires_python,
            "licence": self.licence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFacts:
    """A Debian package that dpkg's status has as installed."""

    name: str
    version: str
    architecture: str

    def document(self) -> Json:
        """Return it as it stands among a tree's facts."""
        return {"name": self.name, "version": self.version, "architecture": self.architecture}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What is known of one file's contents.

    ``script`` is the line after ``#!``; ``paths`` what a RECORD or one of dpkg's lists names, escaped; ``licence`` what
    a copyright file states; ``objects`` for what the objects in a static archive are, each kind once.
    """

    elf: ElfFacts | None = None
    gpu: GpuFacts | None = None
    objects: tuple[ObjectFacts, ...] | None = None
    script: str | None = None
    wheel: WheelFacts | None = None
    paths: tuple[str, ...] | None = None
    packages: tuple[PackageFacts, ...] | None = None
    licence: str | None = None

    def document(self) -> dict[str, Json]:
        """Return it as it stands among a tree's facts; empty when there is nothing to say."""
        found: dict[str, Json] = {
            "elf": self.elf.document() if self.elf else None,
            "gpu": self.gpu.document() if self.gpu else None,
            "objects": None if self.objects is None else [one.document() for one in self.objects],
            "script": self.script,
            "wheel": self.wheel.document() if self.wheel else None,
            "paths": None if self.paths is None else list(self.paths),
            "packages": None if self.packages is None else [one.document() for one in self.packages],
            "licence": self.licence,
        }
        return {key: value for key, value in found.items() if value is not None}


NOTHING = FileFacts()


def read_facts(document: Mapping[str, object]) -> FileFacts:
    """Read what ``FileFacts.document`` gives."""
    elf, wheel, packages, objects = (document.get(key) for key in ("elf", "wheel", "packages", "objects"))
    paths, gpu, script, licence = (document.get(key) for key in ("paths", "gpu", "script", "licence"))
    return FileFacts(
        elf=_elf(elf) if isinstance(elf, Mapping) else None,
        gpu=_gpu(gpu) if isinstance(gpu, Sequence) else None,
        objects=_objects(objects) if isinstance(objects, Sequence) else None,
        script=script if isinstance(script, str) else None,
        wheel=_wheel(wheel) if isinstance(wheel, Mapping) else None,
        paths=_texts(paths) if isinstance(paths, Sequence) else None,
        packages=tuple(PackageFacts(**one) for one in packages) if isinstance(packages, Sequence) else None,
        licence=licence if isinstance(licence, str) else None,
    )


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, Sequence)
    return tuple(map(str, value))


def _gpu(value: Sequence[Mapping[str, object]]) -> GpuFacts:
    units = []
    for one in value:
        count = one["count"]
        assert isinstance(count, int)
        units.append((tuple(parse_code(text) for text in _texts(one["for"])), count))
    return GpuFacts(units=tuple(units))


def _objects(value: Sequence[Mapping[str, int]]) -> tuple[ObjectFacts, ...]:
    return tuple(ObjectFacts(machine=one["machine"], bits=one["bits"], is_little=bool(one["little"])) for one in value)


def _elf(value: Mapping[str, object]) -> ElfFacts:
    needs = value.get("needs", {})
    bits, machine = value.get("bits", 0), value.get("machine", 0)
    assert isinstance(needs, Mapping)
    assert isinstance(bits, int)
    assert isinstance(machine, int)
    return ElfFacts(
        bits=bits,
        is_little=bool(value.get("little", False)),
        machine=machine,
        type=str(value.get("type", "")),
        interpreter=_text(value.get("interpreter")),
        soname=_text(value.get("soname")),
        needed=_texts(value.get("needed", ())),
        rpath=_texts(value.get("rpath", ())),
        runpath=_texts(value.get("runpath", ())),
        needs={name: _texts(versions) for name, versions in needs.items()},
        defines=_texts(value.get("defines", ())),
        broken=_text(value.get("broken")),
    )


def _wheel(value: Mapping[str, object]) -> WheelFacts:
    return WheelFacts(
        name=str(value["name"]),
        version=str(value["version"]),
        requires=_texts(value["requires"]),
        requires_python=_text(value["requires-python"]),
        licence=str(value["licence"]),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
