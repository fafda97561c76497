# SPDX-License-Identifier: Apache-2.0
"""Two ELF files: header, needed libraries, build id, sections by name, symbols that came, went or moved.

Core: no IO. Imports pyelftools when it is called.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from derive.differ.model import Report, Unread
from derive.differ.raw import first_of, hex_text

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_SECTIONS = 20_000
_SYMBOLS = 400_000
_OPENED = 4


@dataclass(frozen=True, slots=True)
class _Symbol:
    value: int
    size: int
    section: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    kind: str
    address: int
    offset: int
    size: int
    flags: int
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    header: dict[str, str]
    needed: tuple[str, ...]
    build_id: str | None
    sections: dict[str, _Section]
    names: tuple[str, ...]
    symbols: dict[str, _Symbol]


def compare_elf(report: Report, first: bytes, second: bytes) -> None:
    """Say what differs; raises Unread, or what pyelftools raises, for what is no whole ELF file."""
    old, new = _facts(first), _facts(second)
    for what in old.header:
        if old.header[what] != new.header[what]:
            report.say(f"{what}: {old.header[what]} -> {new.header[what]}")
    if old.needed != new.needed:
        report.say(f"needed libraries: {', '.join(old.needed) or 'none'} -> {', '.join(new.needed) or 'none'}")
    if old.build_id != new.build_id:
        report.say(f"build id: {old.build_id} -> {new.build_id}")
    if old.sections.keys() != new.sections.keys():
        report.rows([f"- section {name}" for name in old.sections if name not in new.sections], "removed")
        report.rows([f"+ section {name}" for name in new.sections if name not in old.sections], "added")
    _sections(report, old, new)
    report.rows(list(_symbols(old.symbols, new.symbols)))


def _facts(data: bytes) -> _Facts:
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(data))
    if elf.num_sections() > _SECTIONS:
        raise Unread(f"more than {_SECTIONS} sections")
    sections: dict[str, _Section] = {}
    names: list[str] = []
    for section in elf.iter_sections():
        header = section.header
        name, again = section.name or "(no name)", 1
        while name in sections:
            again += 1
            name = f"{section.name or '(no name)'} (no. {again})"
        start, size, kind = int(header["sh_offset"]), int(header["sh_size"]), str(header["sh_type"])
        held = b"" if kind in ("SHT_NOBITS", "SHT_NULL") else data[start : start + size]
        names.append(name)
        sections[name] = _Section(
            kind=kind.removeprefix("SHT_"), address=int(header["sh_addr"]), offset=start, size=size,
            flags=int(header["sh_flags"]), data=held,
        )  # fmt: skip
    words = {"class": str(elf.elfclass), "byte order": "little" if elf.little_endian else "big"}
    words |= {what: str(elf.header[key]) for what, key in (("type", "e_type"), ("machine", "e_machine"))}
    words |= {"entry": hex(int(elf.header["e_entry"])), "flags": hex(int(elf.header["e_flags"]))}
    return _Facts(
        header=words,
        needed=tuple(_needed(elf)),
        build_id=_build_id(sections.get(".note.gnu.build-id")),
        sections=sections,
        names=tuple(names),
        symbols=_read_symbols(elf, sections),
    )


def _needed(elf: ELFFile) -> Iterator[str]:
    from elftools.elf.dynamic import DynamicSection

    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags("DT_NEEDED"):
                yield str(getattr(tag, "needed"))  # noqa: B009 - made by pyelftools, for tags of this kind


def _build_id(note: _Section | None) -> str | None:
    return None if note is None else note.data[16:].hex()


def _read_symbols(elf: ELFFile, sections: dict[str, _Section]) -> dict[str, _Symbol]:
    """Return defined symbols by name: of the full table, else of the dynamic one."""
    table, strings = (".symtab", ".strtab") if ".symtab" in sections else (".dynsym", ".dynstr")
    if table not in sections or strings not in sections:
        return {}
    order = "<" if elf.little_endian else ">"
    form = struct.Struct(order + ("IBBHQQ" if elf.elfclass == 64 else "IIIBBH"))
    data, names = sections[table].data, sections[strings].data
    found: dict[str, _Symbol] = {}
    for fields in form.iter_unpack(data[: min(len(data) // form.size, _SYMBOLS) * form.size]):
        if elf.elfclass == 64:
            name, _, _, section, value, size = fields
        else:
            name, value, size, _, _, section = fields
        end = names.find(b"\0", name)
        text = names[name : end if end >= 0 else None].decode("utf-8", "backslashreplace")
        if text and section:
            found.setdefault(text, _Symbol(value, size, section))
    return found


def _sections(report: Report, old: _Facts, new: _Facts) -> None:
    rows: list[str] = []
    differing: list[str] = []
    for name, left in old.sections.items():
        right = new.sections.get(name)
        if right is None:
            continue
        facts = [f"{what} {getattr(left, what)} -> {getattr(right, what)}" for what in ("kind", "flags", "size")
                 if getattr(left, what) != getattr(right, what)]  # fmt: skip
        if left.address != right.address:
            facts.append(f"address {left.address:#x} -> {right.address:#x}")
        if left.data != right.data:
            facts.append("contents")
            differing.append(name)
        if facts:
            rows.append(f"section {name}: {', '.join(facts)}")
        elif left.offset != right.offset:
            rows.append(f"section {name}: moved from {left.offset:#x} to {right.offset:#x} in the file")
    report.rows(rows)
    for name in differing[:_OPENED]:
        _contents(report, name, old, new)
    if len(differing) > _OPENED:
        report.say(f"... and the contents of {len(differing) - _OPENED} more sections", "dim")


def _contents(report: Report, name: str, old: _Facts, new: _Facts) -> None:
    left, right = old.sections[name], new.sections[name]
    at = first_of(left.data, right.data)
    if at is None:
        return
    strings = (
        _strings(left.data, right.data) if name.startswith((".rodata", ".comment", ".strtab", ".debug_str")) else []
    )
    inside = _symbol_at(old, name, left.address + at)
    with report.inside(f"{name} from byte {at:#x} on{f', in {inside}' if inside else ''}"):
        report.rows(strings)
        start = at - at % 16
        if not strings:
            report.say(f"- {start:08x}  {hex_text(left.data[start : start + 16])}", "removed")
            report.say(f"+ {start:08x}  {hex_text(right.data[start : start + 16])}", "added")


def _symbol_at(facts: _Facts, section: str, address: int) -> str | None:
    index = facts.names.index(section)
    for name, symbol in facts.symbols.items():
        if symbol.section == index and symbol.value <= address < symbol.value + symbol.size:
            return name
    return None


def _strings(first: bytes, second: bytes) -> Sequence[str]:
    """Return texts that only one of two sections holds, the first few."""
    old, new = (_texts(data) for data in (first, second))
    gone, came = (sorted(one - other)[:4] for one, other in ((old, new), (new, old)))
    shown = [f"{sign} {text.decode('ascii')!r}" for sign, texts in (("-", gone), ("+", came)) for text in texts]
    return [row if len(row) <= 120 else f"{row[:120]}..." for row in shown]


def _texts(data: bytes) -> set[bytes]:
    parts = data.split(b"\0")
    return {part for part in parts if len(part) >= 4 and part.isascii() and part.decode("ascii").isprintable()}


def _symbols(old: dict[str, _Symbol], new: dict[str, _Symbol]) -> Iterator[str]:
    for name in sorted(old.keys() - new.keys()):
        yield f"- symbol {name}"
    for name in sorted(new.keys() - old.keys()):
        yield f"+ symbol {name}"
    sized = [name for name in sorted(old.keys() & new.keys()) if old[name].size != new[name].size]
    for name in sized:
        yield f"symbol {name}: size {old[name].size} -> {new[name].size}"
    moved = sum(1 for name in old.keys() & new.keys() if old[name].value != new[name].value)
    if moved:
        yield f"{moved} symbols at other addresses"
