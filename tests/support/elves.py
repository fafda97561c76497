# SPDX-License-Identifier: Apache-2.0
"""Small ELF files and containers of GPU code, made byte by byte, so that a test may have any fault in them.

Core: no IO.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

X86_64, AARCH64, CUDA = 62, 183, 190

_HEADER, _SECTION, _SEGMENT = 64, 64, 56
_STRTAB, _DYNAMIC, _PROGBITS, _VERDEF, _VERNEED = 3, 6, 1, 0x6FFFFFFD, 0x6FFFFFFE
_ONLY_THIS, _FAMILY = 0x100000, 0x200000


class Strings:
    """A string table that grows."""

    def __init__(self) -> None:
        self.data = b"\0"

    def __call__(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def fatbin(*images: str) -> bytes:
    """Return a container of GPU images named as ``sm_120``, ``sm_121a`` or ``compute_120/9.0``."""
    entries = b""
    for image in images:
        name, _, isa = image.partition("/")
        number, variant = name.rpartition("_")[2], ""
        if number[-1] in "af":
            number, variant = number[:-1], number[-1]
        major, minor = (int(part) for part in (isa or "1.8").split("."))
        flags = 0x11 | {"a": _ONLY_THIS, "f": _FAMILY, "": 0}[variant]
        kind = 1 if isa else 2
        entries += struct.pack(
            "<HHIQIIHHIIIQQQ", kind, 0x101, 64, 8, 8, 0, minor, major, int(number), 0, 0, flags, 0, 8
        )
        entries += b"payload\0"
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(entries)) + entries


def cubin(architecture: str) -> bytes:
    """Return a file that is machine code for one GPU architecture, with the assembler's note of which."""
    note = f"Cuda compilation tools\0-arch {architecture} -m 64 ".encode()
    number = int("".join(char for char in architecture if char.isdigit()))
    header = b"\x7fELF\x02\x01\x01\x41\x08" + bytes(7)
    end = _HEADER + len(note)
    fields = (2, CUDA, 1, 0, 0, end, 0x6000002 | number << 8, _HEADER, 0, 0, _SECTION, 1, 0)
    return header + struct.pack("<HHIQQQIHHHHHH", *fields) + note + bytes(_SECTION)


def elf(
    machine: int = X86_64,
    *,
    bits: int = 64,
    soname: str | None = None,
    needed: Sequence[str] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    interpreter: str | None = None,
    needs: Mapping[str, Sequence[str]] | None = None,
    defines: Sequence[str] = (),
    gpu: bytes = b"",
    data: bytes = b"",
) -> bytes:
    """Return a shared object with these entries; ``gpu`` is its section of GPU code, ``data`` one of anything."""
    strings, names = Strings(), Strings()
    dynamic = [(1, strings(name)) for name in needed]
    dynamic += [(tag, strings(text)) for tag, text in ((14, soname), (15, rpath), (29, runpath)) if text is not None]
    required = _verneed(needs or {}, strings)
    defined = _verdef(defines, strings)
    sections = [
        (".dynstr", _STRTAB, 0, 0, strings.data),
        (".dynamic", _DYNAMIC, 1, 16, b"".join(struct.pack("<qQ", *one) for one in [*dynamic, (0, 0)])),
        (".gnu.version_r", _VERNEED, 1, 0, required),
        (".gnu.version_d", _VERDEF, 1, 0, defined),
        (".interp", _PROGBITS, 0, 0, (interpreter or "").encode() + b"\0" if interpreter else b""),
        (".nv_fatbin", _PROGBITS, 0, 0, gpu),
        (".data", _PROGBITS, 0, 0, data),
    ]
    counts = {".gnu.version_r": len(needs or {}), ".gnu.version_d": len(defines)}
    body, table, segments = b"", bytes(_SECTION), b""
    start = _HEADER + _SEGMENT
    for name, kind, link, entry, contents in sections:
        if not contents and name not in (".dynstr", ".dynamic"):
            continue
        at = start + len(body)
        info = counts.get(name, 0)
        table += struct.pack("<IIQQQQIIQQ", names(name), kind, 0, 0, at, len(contents), link, info, 8, entry)
        if name == ".interp":
            segments = struct.pack("<IIQQQQQQ", 3, 4, at, 0, 0, len(contents), len(contents), 1)
        body += contents + bytes(-len(contents) % 8)
    at = start + len(body)
    place = names(".shstrtab")
    table += struct.pack("<IIQQQQIIQQ", place, _STRTAB, 0, 0, at, len(names.data), 0, 0, 1, 0)
    body += names.data + bytes(-len(names.data) % 8)
    count = len(table) // _SECTION
    header = b"\x7fELF" + bytes((2 if bits == 64 else 1, 1, 1)) + bytes(9)
    shape = (
        3,
        machine,
        1,
        0,
        _HEADER,
        start + len(body),
        0,
        _HEADER,
        _SEGMENT,
        bool(segments),
        _SECTION,
        count,
        count - 1,
    )
    header += struct.pack("<HHIQQQIHHHHHH", *shape)
    return header + segments.ljust(_SEGMENT, b"\0") + body + table


def _verneed(needs: Mapping[str, Sequence[str]], strings: Strings) -> bytes:
    blocks = []
    for library, versions in needs.items():
        auxiliary = b"".join(
            struct.pack("<IHHII", 0, 0, index + 2, strings(version), 16 if index + 1 < len(versions) else 0)
            for index, version in enumerate(versions)
        )
        blocks.append((struct.pack("<HHII", 1, len(versions), strings(library), 16), auxiliary))
    sizes = [16 + len(auxiliary) for _, auxiliary in blocks]
    return b"".join(
        head + struct.pack("<I", sizes[index] if index + 1 < len(blocks) else 0) + auxiliary
        for index, (head, auxiliary) in enumerate(blocks)
    )


def _verdef(versions: Sequence[str], strings: Strings) -> bytes:
    return b"".join(
        struct.pack("<HHHHIII", 1, 0, index + 1, 1, 0, 20, 28 if index + 1 < len(versions) else 0)
        + struct.pack("<II", strings(version), 0)
        for index, version in enumerate(versions)
    )
