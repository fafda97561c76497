# SPDX-License-Identifier: Apache-2.0
"""GPU code in real libraries: what the engine reads off the headers is what NVIDIA's own tool lists."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from derive.sandbox.outcome import Exited
from derive.sandbox.probe import find_sandbox
from derive.sandbox.request import Program, RootEntry, RootFile, RootFolder, RootLink, SandboxRequest
from derive.sandbox.scratch import scratch_folders
from derive.sandbox.spec import sandbox_spec
from derive.verify.fatbin import containers
from support.kernel_root import kernel_root

pytestmark = [pytest.mark.sandbox, pytest.mark.network]

NVIDIA = "usr/local/lib/python3.13/dist-packages/nvidia"
LIBRARIES = (f"{NVIDIA}/nvshmem/lib/libnvshmem_host.so.3", f"{NVIDIA}/cu13/lib/libcublas.so.13")
LISTED = re.compile(r"(?:ELF|PTX) file +[0-9]+: .*\.(sm_[0-9]+[a-z]?)\.(cubin|ptx)")


def entries(root: Path) -> Iterator[RootEntry]:
    for path in sorted(root.iterdir()):
        name = os.fsencode(path.name)
        if path.is_symlink():
            yield RootLink(name=name, target=os.fsencode(path.readlink()))
        elif path.is_dir():
            yield RootFolder(name=name, empty=not any(path.iterdir()))
        else:
            yield RootFile(name=name)


def listed(root: Path, library: str, place: Path) -> Counter[tuple[str, str]]:
    """Return what cuobjdump lists, run in the root that it is part of: architecture and kind."""
    found: Counter[tuple[str, str]] = Counter()
    place.mkdir(parents=True, exist_ok=True)
    for option in ("--list-elf", "--list-ptx"):
        said: list[bytes] = []
        with scratch_folders(place) as scratch:
            request = SandboxRequest(
                root=os.fsencode(root),
                root_entries=tuple(entries(root)),
                inputs={},
                work=os.fsencode(scratch.work),
                out=os.fsencode(scratch.out),
                devices=None if scratch.devices is None else os.fsencode(scratch.devices),
                command=Program(argv=(f"/{NVIDIA}/cu13/bin/cuobjdump", option, f"/{library}")),
                environment={},
                jobs=1,
            )
            outcome = find_sandbox().run(sandbox_spec(request), log=said.append, timeout_s=300)
        assert outcome == Exited(0), said[-5:]
        found.update((match[1], match[2]) for line in said if (match := LISTED.match(line.decode())) is not None)
    return found


def read(root: Path, library: str) -> Counter[tuple[str, str]]:
    """Return the same as the engine reads it; the tool does not say of code for a family that it is one."""
    found: Counter[tuple[str, str]] = Counter()
    with (root / library).open("rb") as file:
        section = ELFFile(file).get_section_by_name(".nv_fatbin")
        assert section is not None
        start = section.header["sh_offset"]
        end = start + section.header["sh_size"]
        units = list(containers(lambda at, count: os.pread(file.fileno(), count, at), start, end))
    for unit in units:
        for code in unit.images:
            variant = code.variant.replace("f", "")
            found[f"sm_{code.number}{variant}", "cubin" if code.isa is None else "ptx"] += 1
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_is_read_off_headers_is_what_cuobjdump_lists(library: str, tmp_path: Path) -> None:
    root = kernel_root()
    found = listed(root, library, tmp_path)
    assert found
    assert read(root, library) == found
