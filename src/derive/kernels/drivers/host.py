# SPDX-License-Identifier: Apache-2.0
"""Compiles the host's part of one kernel, and lays out the entry of TileLang's cache that such a host loads.

Edge: processes and files; runs inside the sandbox, on the standard library alone, with nothing of the engine.

    host.py DEVICE MACHINE OUT

DEVICE is what device.py wrote, MACHINE ``x86_64`` or ``aarch64``. The entry is
``OUT/<version>/linux-<machine>/kernels/<key>/``, with the files and the manifest that TileLang verifies.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

_WORK = Path("/tmp/kernel")  # noqa: S108 - the sandbox's own
_PACKAGES = Path(f"/usr/local/lib/python3.{sys.version_info.minor}/dist-packages")
_HEADERS = (_PACKAGES / "tilelang/3rdparty/tvm/include", _PACKAGES / "tvm_ffi/include")
_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/bin:/bin",
    "SOURCE_DATE_EPOCH": "315532800",
    "TMPDIR": str(_WORK),
}
# Fused multiplications and additions would be one machine's alone.
_FLAGS = ("-std=gnu17", "-O2", "-fPIC", "-ffp-contract=off")
_COPIED = {"device_kernel.cu": "kernel.cu", "host_kernel.cu": "host.c", "params.json": "params.json"}
"""By name in the entry, the file of the device's part."""


def _main(arguments: list[str]) -> int:
    device, machine, out = Path(arguments[0]), arguments[1], Path(arguments[2])
    launch = json.loads((device / "launch.json").read_text())
    entry = out / launch["version"] / f"linux-{machine}" / "kernels" / launch["keys"][machine]
    entry.mkdir(parents=True)
    for name, source in _COPIED.items():
        shutil.copyfile(device / source, entry / name)
    shutil.rmtree(_WORK, ignore_errors=True)  # of a run before this one, in a person's shell
    _WORK.mkdir()
    os.chdir(_WORK)
    _compile(device, f"{machine}-linux-gnu-gcc")
    shutil.copyfile("executable.so", entry / "executable.so")
    (entry / "manifest.json").write_text(_manifest(entry))
    return 0


def _compile(device: Path, gcc: str) -> None:
    """Compile by file names without folders, so that none is in the output; TVM's symbols are bound at loading."""
    for name in ("host.c", "imports.c"):
        shutil.copyfile(device / name, name)
    includes = [f"-I{folder}" for folder in _HEADERS]
    for name in ("host", "imports"):
        _run([gcc, *_FLAGS, *includes, "-c", f"{name}.c", "-o", f"{name}.o"])
    _run([gcc, "-shared", "-Wl,--build-id=none", "-o", "executable.so", "host.o", "imports.o", "-lm"])


def _manifest(entry: Path) -> str:
    """Return what TileLang checks before it loads an entry: the size and digest of each file."""
    files = {
        path.name: {"sha256": hashlib.sha256(path.read_bytes()).hexdigest(), "size": path.stat().st_size}
        for path in entry.iterdir()
    }
    return json.dumps({"files": files, "version": 1}, indent=2, sort_keys=True)


def _run(command: list[str]) -> None:
    ended = subprocess.run(command, check=False, env=_ENVIRONMENT)
    if ended.returncode:
        raise SystemExit(f"{command[0]} ended with {ended.returncode}")


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
