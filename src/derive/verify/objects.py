# SPDX-License-Identifier: Apache-2.0
"""Reads for which machines the objects in a static archive are; what is no ELF file in it is passed over.

Core: no IO of its own; it reads from the file that it is given.
"""

from __future__ import annotations

from derive.archives.ar import MAGIC, read_ar
from derive.errors import Corrupt
from derive.verify.facts import ElfFacts, FileFacts, ObjectFacts
from derive.verify.fatbin import EM_CUDA, ReadAt

AR_MAGIC = MAGIC

_ELF_MAGIC = b"\x7fELF"
_HEAD = 20
_MOST = 1 << 16


def read_archive(read: ReadAt, size: int) -> FileFacts:
    """Return the facts of an ar archive of ``size`` bytes, of which ``read`` gives slices."""
    try:
        members = read_ar("archive", read, size, most=_MOST)
    except Corrupt as error:
        return FileFacts(elf=ElfFacts(needs={}, broken=str(error)))
    heads = (read(one.offset, min(one.size, _HEAD)) for one in members)
    found = {_object(head) for head in heads if len(head) == _HEAD and head.startswith(_ELF_MAGIC)}
    return FileFacts(objects=tuple(sorted(one for one in found if one.machine != EM_CUDA)) or None)


def _object(head: bytes) -> ObjectFacts:
    is_little = head[5] != 2
    machine = int.from_bytes(head[18:20], "little" if is_little else "big")
    return ObjectFacts(machine=machine, bits=64 if head[4] == 2 else 32, is_little=is_little)
