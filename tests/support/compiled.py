# SPDX-License-Identifier: Apache-2.0
"""A project whose kernels compile in a moment: its compiler is a shell script that writes what the real one would.

The sandbox, the store, the builder and the commands are the real ones. Edge: the file system, loopback sockets.

What the script does can be said in comments of ``kernel.py``: ``# fail TILE`` makes that tile's units fail, ``# spill
N`` spills, ``# one key`` gives all units the same cache key, ``# jobs yes`` writes the job count into the machine code,
``# slow N`` takes N seconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from derive.canonical import Digest
from derive.lock.documents import DebEntry, DebianLock, render_lock
from derive.lock.wishes import require_wish, wish_digest
from support.archives import Tar, deb, folder
from support.kernels import KERNEL_FILES
from support.servers import Reply
from support.small import WISH, Small, deb_entry, locator, small_project

UNITS = tuple(
    f"scale/scale/{shape}/{tile}"
    for shape in ("wide", "narrow")
    for tile in ("few/sm_90a", "few/sm_121a", "many/sm_90a", "many-blackwell/sm_121a")
)
"""The units of the project's kernel, in the order of its file."""

COMPILER = r"""#!/bin/sh
set -eu
if [ "$2" = /in/driver/host.py ]; then
  device=$3 machine=$4 out=$5
  key=$(sed -n "s/.*\"$machine\": \"\([^\"]*\)\".*/\1/p" "$device/launch.json")
  mkdir -p "$out/0.1.15/linux-$machine/kernels/$key"
  echo "host code for $machine" > "$out/0.1.15/linux-$machine/kernels/$key/executable.so"
  exit
fi
unit=$3 out=$4
value() { sed "s/.*\"$1\":\"\([^\"]*\)\".*/\1/" "$unit/unit.json"; }
said() { sed -n "s/^# $1//p" "$unit/kernel.py"; }
shape=$(value shape) tile=$(value tile) gpu=$(value gpu)
if [ "$(said 'fail ')" = "$tile" ]; then echo "kernel.py: no such tile" >&2; exit 1; fi
if [ -n "$(said "slow ")" ]; then sleep "$(said 'slow ')"; fi
key=$shape-$tile-$gpu
if [ -n "$(said 'one ')" ]; then key=one; fi
spill=$(said 'spill ')
{ cat "$unit/kernel.py"; echo "// $shape $tile $gpu"; } > "$out/kernel.cu"
cp "$out/kernel.cu" "$out/kernel.cubin"
if [ -n "$(said "jobs ")" ]; then echo "$DERIVE_JOBS jobs" >> "$out/kernel.cubin"; fi
cat > "$out/kernel.sass" <<END
        /*0000*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0010*/              @!P0 FFMA R0, R1, R2, R3 ;
        /*0020*/                   EXIT ;
END
if [ "$gpu" = sm_121a ]; then echo '        /*0030*/  NOP ;' >> "$out/kernel.sass"; fi
cat > "$out/launch.json" <<END
{"version": "0.1.15", "entry": "scale_kernel", "binary-key": "b-$key", "grid": ["rows", 1, 1], "block": [64, 1, 1],
"dynamic-shared-memory": 1024, "keys": {
"x86_64": "k-$key-x",
"aarch64": "k-$key-a"
}}
END
cat > "$out/resources.json" <<END
{"registers": 32, "static-shared-memory-bytes": 16, "spill-store-bytes": ${spill:-0}, "spill-load-bytes": 0,
"stack-bytes": 0, "sass-sha256": "$(echo "$gpu" | sed s/sm_/$(echo aaaa)/)", "instructions": 3,
"matrix-instructions": {"HMMA.16816.F32.BF16": 1}, "compiler": {"nvcc": "13.0.88", "tilelang": "0.1.15"}}
END
"""

_WISH = (
    WISH.partition("[closures.tools]")[0]
    + """\
[closures.compiler]
architectures = ["amd64"]
packages = ["busybox", "compiler"]
"""
)

_ROOT = """\
[root]
builder = "debian-root"
set = "kernels"
closure = "compiler"

[kernel-tests]
builder = "script"
root = "tools"
inputs = { sources = "sources" }
script = "test.sh"

[kernel-tests-quick]
builder = "script"
root = "tools"
inputs = { sources = "sources" }
script = "quick.sh"
"""

_FILE = "compiler_1.0-1_amd64.deb"


@contextmanager
def kernel_project(place: Path) -> Iterator[Small]:
    """Write the project below a folder, and serve what it locks."""
    with small_project(place) as small:
        for path, text in KERNEL_FILES.items():
            small.write(path, text)
        data = _compiler_deb()
        small.serve(_FILE, Reply(body=data))
        small.write("lock/kernels.toml", _WISH)
        small.write("lock/kernels.lock.json", _lock(data))
        small.write("derivations/k.toml", _ROOT + "\n" + KERNEL_FILES["derivations/k.toml"])
        small.write("derivations/k/test.sh", 'echo "tested" > "$DERIVE_OUT/results"\n')
        small.write("derivations/k/quick.sh", 'echo "looked at" > "$DERIVE_OUT/results"\n')
        yield small


def _compiler_deb() -> bytes:
    folders = (folder(name) for name in (b"./", b"./usr/", b"./usr/bin/"))
    program = Tar(name=b"./usr/bin/python3.13", data=COMPILER.encode(), mode=0o755)
    return deb(*folders, program, package="compiler")


def _lock(data: bytes) -> bytes:
    busybox = deb_entry("busybox_1.0-1_amd64.deb")
    entry: DebEntry = replace(
        busybox,
        name="compiler",
        file=_FILE,
        locator=locator(_FILE),
        size=len(data),
        sha256=Digest(hashlib.sha256(data).hexdigest()),
    )
    lock = DebianLock(
        set="kernels",
        wish=wish_digest(require_wish(_WISH.encode(), "lock/kernels.toml")),
        debs=(busybox, entry),
        sources=(),
        closures={"compiler": {"amd64": (busybox.file, entry.file)}},
    )
    return render_lock(lock)
