# SPDX-License-Identifier: Apache-2.0
"""Reads an ELF file as far as the loader and a GPU's driver look at it; symbols and code stay unread.

Core: no IO of its own; it reads from the file that it is given. Imports pyelftools when it is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING

from derive.verify.facts import ElfFacts, FileFacts, GpuFacts
from derive.verify.fatbin import EM_CUDA, Malformed, ReadAt, Unit, containers, lone_cubin, scattered

if TYPE_CHECKING:
    from elftools.elf.dynamic import Dynamic
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section

ELF_MAGIC = b"\x7fELF"

_GPU_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_WEAK = 2


def read_elf(file: IO[bytes], read: ReadAt, size: int) -> FileFacts:
    """Return the facts of an ELF file; ``file`` and ``read`` are two ways to the same ``size`` bytes."""
    from elftools.common.exceptions import ELFError
    from elftools.construct.core import ConstructError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(file)
        if elf.header["e_machine"] in ("EM_CUDA", EM_CUDA):
            return FileFacts(gpu=gpu_facts([lone_cubin(read, size)]))
        sections = list(elf.iter_sections())
        facts = _loaded(elf, sections)
        gpu = gpu_facts(_gpu_units(sections, read, size)) if facts.type != "REL" else None
    except (ELFError, ConstructError, Malformed, ValueError, KeyError, IndexError, TypeError, AssertionError) as error:
        # All that pyelftools raises on files that are none: it checks little of what it reads.
        return FileFacts(elf=ElfFacts(needs={}, broken=str(error) or type(error).__name__))
    return FileFacts(elf=facts, gpu=gpu)


def gpu_facts(units: list[Unit]) -> GpuFacts | None:
    """Count codes by the architectures that they are for; None when there are none."""
    counted = Counter(unit.images for unit in units if unit.images)
    if not counted:
        return None
    return GpuFacts(units=tuple(sorted(counted.items(), key=lambda one: [str(code) for code in one[0]])))


def _loaded(elf: ELFFile, sections: Sequence[Section]) -> ElfFacts:
    dynamic = _dynamic(elf, sections)
    tags = list(dynamic.iter_tags()) if dynamic is not None else []

    def values(tag: str, attribute: str) -> list[str]:
        return [str(getattr(one, attribute)) for one in tags if one.entry.d_tag == tag]

    return ElfFacts(
        bits=elf.elfclass,
        is_little=elf.little_endian,
        machine=_number(elf),
        type=str(elf.header["e_type"]).removeprefix("ET_"),
        interpreter=_interpreter(elf, sections),
        soname=next(iter(values("DT_SONAME", "soname")), None),
        needed=tuple(values("DT_NEEDED", "needed")),
        rpath=_parts(values("DT_RPATH", "rpath")),
        runpath=_parts(values("DT_RUNPATH", "runpath")),
        needs=_required(sections),
        defines=_defined(sections),
    )


def _number(elf: ELFFile) -> int:
    """Return the machine's number, whatever name the library has for it."""
    elf.stream.seek(18)
    return int.from_bytes(elf.stream.read(2), "little" if elf.little_endian else "big")


def _dynamic(elf: ELFFile, sections: Sequence[Section]) -> Dynamic | None:
    from elftools.elf.dynamic import DynamicSection, DynamicSegment

    found = next((section for section in sections if isinstance(section, DynamicSection)), None)
    if found is not None:
        return found
    # A file need not have sections: the loader looks at segments alone.
    return next((one for one in elf.iter_segments("PT_DYNAMIC") if isinstance(one, DynamicSegment)), None)


def _interpreter(elf: ELFFile, sections: Sequence[Section]) -> str | None:
    from elftools.elf.segments import InterpSegment

    if sections and not any(section.name == ".interp" for section in sections):
        return None
    found = (one.get_interp_name() for one in elf.iter_segments("PT_INTERP") if isinstance(one, InterpSegment))
    return next(found, None)


def _parts(paths: list[str]) -> tuple[str, ...]:
    return tuple(part for path in paths for part in path.split(":") if part)


def _required(sections: Sequence[Section]) -> dict[str, tuple[str, ...]]:
    from elftools.elf.gnuversions import GNUVerNeedSection

    found: dict[str, set[str]] = {}
    for section in sections:
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                names = {one.name for one in versions if not one.entry["vna_flags"] & _WEAK}
                found.setdefault(str(library.name), set()).update(names)
    return {library: tuple(sorted(names)) for library, names in sorted(found.items())}


def _defined(sections: Sequence[Section]) -> tuple[str, ...]:
    from elftools.elf.gnuversions import GNUVerDefSection

    names: set[str] = set()
    for section in sections:
        if isinstance(section, GNUVerDefSection):
            names.update(next(auxiliary).name for _, auxiliary in section.iter_versions())
    return tuple(sorted(names))


def _gpu_units(sections: Sequence[Section], read: ReadAt, size: int) -> list[Unit]:
    units: list[Unit] = []
    spans: list[tuple[int, int]] = []
    for section in sections:
        if section.name in _GPU_SECTIONS and section.header["sh_type"] != "SHT_NOBITS":
            start = section.header["sh_offset"]
            spans.append((start, start + section.header["sh_size"]))
            units += containers(read, *spans[-1])
    for start, end in _between(sorted(spans), size):
        units += scattered(read, start, end)
    return units


def _between(spans: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    """Yield what lies before, between and after some spans of a file, but for its own header."""
    position = len(ELF_MAGIC)
    for start, end in spans:
        if start > position:
            yield position, start
        position = max(position, end)
    if position < size:
        yield position, size
