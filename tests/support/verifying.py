# SPDX-License-Identifier: Apache-2.0
"""Images to verify, in memory: a few files with whatever is wrong with them, probed for real.

Core: no IO.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

from derive.canonical import sha256
from derive.derivations.model import Platform
from derive.images.modes import ModeTable
from derive.images.oci import ImageConfig
from derive.trees.listing import Entry, File, Listing, Symlink
from derive.verify import texts
from derive.verify.declarations import VerifyDecl, parse_verify
from derive.verify.elf import ELF_MAGIC, read_elf
from derive.verify.facts import FileFacts
from derive.verify.findings import Finding
from derive.verify.image import ImageTree
from derive.verify.judge import Report, judge
from derive.verify.objects import AR_MAGIC, read_archive
from derive.verify.rules.wheels import Resolution
from support.elves import X86_64, elf

SITE = "usr/local/lib/python3.13/dist-packages"
LIBC = elf(X86_64, soname="libc.so.6", defines=("libc.so.6", "GLIBC_2.17", "GLIBC_2.34"))
SOUND: Mapping[str, bytes] = {
    "usr/lib/x86_64-linux-gnu/libc.so.6": LIBC,
    "usr/bin/python3.13": elf(X86_64, needed=("libc.so.6",), needs={"libc.so.6": ("GLIBC_2.34",)}),
    "usr/bin/env": elf(X86_64, needed=("libc.so.6",)),
}
"""Files with which nothing is wrong."""


def wheel(
    name: str, version: str = "1.0", *, files: Sequence[str] = (), more: str = "License: MIT\n"
) -> dict[str, bytes]:
    """Return the files of an installed wheel; those named are empty modules."""
    info = f"{SITE}/{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
    own = {f"{SITE}/{path}": b"# a module\n" for path in files}
    listed = [*(path.removeprefix(f"{SITE}/") for path in own), f"{name}-{version}.dist-info/METADATA"]
    record = "".join(f"{path},,\n" for path in listed)
    return {**own, f"{info}/METADATA": metadata.encode(), f"{info}/RECORD": record.encode()}


def deb(name: str, *paths: str, licence: str | None = "MIT") -> dict[str, bytes]:
    """Return the files of an installed package: dpkg's, and its copyright file."""
    header = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: "
    copyright_file = {f"usr/share/doc/{name}/copyright": (header + licence).encode()} if licence else {}
    listed = "".join(f"/{path}\n" for path in ("usr", *paths))
    status = f"Package: {name}\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\n\n"
    return {
        "var/lib/dpkg/status": status.encode(),
        f"var/lib/dpkg/info/{name}.list": listed.encode(),
        **copyright_file,
    }


def declared(text: str = "") -> VerifyDecl:
    """Read a verify file that must be sound."""
    found, problems = parse_verify(text.encode(), "images/verify/x.toml")
    assert found is not None, problems
    return found


def image(
    files: Mapping[str, bytes],
    links: Mapping[str, str] | None = None,
    *,
    platform: Platform = "linux/amd64",
    plain: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    config: ImageConfig | None = None,
) -> ImageTree:
    """Return an image of some files, all executable but for ``plain``, of links, and of a config or its variables."""
    config = config or ImageConfig(environment={"PATH": "/usr/bin"} | dict(environment or {}))
    entries: dict[bytes, Entry] = {path.encode(): Symlink(target.encode()) for path, target in (links or {}).items()}
    facts: dict[str, FileFacts] = {}
    for path, data in files.items():
        entries[path.encode()] = File(executable=path not in plain, size=len(data), sha256=sha256(data))
        facts[sha256(data).hex] = probed(path.encode(), data)
    listing = Listing.of(entries)
    return ImageTree(name="x", platform=platform, listing=listing, facts=facts, config=config)


def probed(path: bytes, data: bytes) -> FileFacts:
    """Return the facts of a file."""
    if data.startswith(ELF_MAGIC):
        return read_elf(io.BytesIO(data), lambda at, count: data[at : at + count], len(data))
    if data.startswith(AR_MAGIC):
        return read_archive(lambda at, count: data[at : at + count], len(data))
    if texts.is_metadata(path):
        return FileFacts(wheel=texts.wheel_facts(data))
    if texts.is_record(path) or texts.is_list(path):
        return FileFacts(paths=texts.record_paths(data) if texts.is_record(path) else texts.list_paths(data))
    if texts.is_copyright(path):
        return FileFacts(licence=texts.licence_text(data))
    if path == texts.STATUS:
        return FileFacts(packages=texts.packages(data))
    return FileFacts(script=texts.first_line(data))


def verified(
    tree: ImageTree, text: str = "", *, resolution: Resolution | None = None, modes: ModeTable | None = None
) -> Report:
    """Judge an image with a verify file."""
    found = judge(tree, declared(text), resolution or Resolution(), modes or ModeTable(), file="images/verify/x.toml")
    assert found.document()
    return found


def findings(
    tree: ImageTree, text: str = "", *, resolution: Resolution | None = None, modes: ModeTable | None = None
) -> list[tuple[str, str, str]]:
    """Return (rule, path, about) of every finding."""
    return [_short(one) for one in verified(tree, text, resolution=resolution, modes=modes).findings]


def _short(finding: Finding) -> tuple[str, str, str]:
    return finding.rule.value, finding.path, finding.about
