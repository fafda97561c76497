# SPDX-License-Identifier: Apache-2.0
"""Small locks for tests.

Core: no IO.
"""

from __future__ import annotations

from derive.canonical import Digest
from derive.lock.documents import DebEntry, DebianLock, PythonLock, SourceEntry, SourceFile, WheelEntry

WISH = Digest("1" * 64)


def deb(name: str, architecture: str = "amd64", **changes: str) -> DebEntry:
    file = f"{name}_1.0-1_{architecture}.deb"
    values = {"version": "1.0-1", "suite": "trixie", "licence": "MIT", "file": file, **changes}
    return DebEntry(
        name=name,
        architecture=architecture,
        locator=f"pool/main/{name[0]}/{name}/{file}",
        size=10,
        sha256=Digest(f"{sum(map(ord, file)):064x}"),
        **values,
    )


def source(name: str) -> SourceEntry:
    files = tuple(
        SourceFile(file=f, locator=f"pool/main/{name[0]}/{name}/{f}", size=5, sha256=Digest("3" * 64))
        for f in (f"{name}_1-1.debian.tar.xz", f"{name}_1.orig.tar.gz")
    )
    return SourceEntry(name=name, version="1-1", suite="trixie", files=files, licence="MIT")


def wheel(name: str, tag: str = "py3-none-any", version: str = "1.0") -> WheelEntry:
    file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    return WheelEntry(
        name=name,
        version=version,
        file=file,
        size=10,
        sha256=Digest(f"{sum(map(ord, file)):064x}"),
        licence="MIT",
        requires_python=">=3.9",
    )


def debian_lock() -> DebianLock:
    debs = (deb("a"), deb("a", "arm64"), deb("b", "all"))
    closures = {"run": {"amd64": (debs[0].file, debs[2].file), "arm64": (debs[1].file, debs[2].file)}}
    return DebianLock(set="x", wish=WISH, debs=debs, sources=(source("b"),), closures=closures)


def python_lock() -> PythonLock:
    wheels = (
        wheel("a"),
        wheel("n", "cp313-cp313-manylinux_2_17_aarch64"),
        wheel("n", "cp313-cp313-manylinux_2_17_x86_64"),
    )
    targets = {
        "cp313-amd64": (wheels[0].file, wheels[2].file),
        "cp313-arm64": (wheels[0].file, wheels[1].file),
    }
    return PythonLock(set="x", wish=WISH, wheels=wheels, targets=targets)
