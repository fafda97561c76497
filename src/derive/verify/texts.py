# SPDX-License-Identifier: Apache-2.0
"""What packages say of themselves in text: METADATA and RECORD, dpkg's database, copyright files, first lines.

Core: no IO.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping

from derive.canonical import escape
from derive.lock.records import copyright_licence
from derive.verify.facts import PackageFacts, WheelFacts
from derive.wheels.metadata import stated_licence

STATUS = b"var/lib/dpkg/status"
UNSTATED = "see-copyright-file"
"""The licence of a Debian package whose copyright file is for people only."""

_LIST = re.compile(rb"var/lib/dpkg/info/[^/]+\.list")
_COPYRIGHT = re.compile(rb"usr/share/doc/[^/]+/copyright")


def is_metadata(path: bytes) -> bool:
    """Say whether a path is that of a wheel's METADATA."""
    return path.endswith(b".dist-info/METADATA")


def is_record(path: bytes) -> bool:
    """Say whether a path is that of a wheel's RECORD."""
    return path.endswith(b".dist-info/RECORD")


def is_list(path: bytes) -> bool:
    """Say whether a path is that of one of dpkg's lists of files."""
    return _LIST.fullmatch(path) is not None


def is_copyright(path: bytes) -> bool:
    """Say whether a path is that of a Debian package's copyright file."""
    return _COPYRIGHT.fullmatch(path) is not None


def is_text(path: bytes) -> bool:
    """Say whether a path is that of one of these."""
    return path == STATUS or is_metadata(path) or is_record(path) or is_list(path) or is_copyright(path)


def wheel_facts(data: bytes) -> WheelFacts:
    """Read a METADATA; fields that are malformed, as they often are, count as absent."""
    from packaging.metadata import parse_email

    raw, _ = parse_email(data)
    return WheelFacts(
        name=raw.get("name") or "",
        version=raw.get("version") or "",
        requires=tuple(raw.get("requires_dist") or ()),
        requires_python=raw.get("requires_python") or None,
        licence=stated_licence(data),
    )


def record_paths(data: bytes) -> tuple[str, ...]:
    """Return the paths that a RECORD lists, escaped; they are relative to the folder that the .dist-info lies in."""
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    return tuple(escape(row[0].encode("utf-8", "surrogateescape")) for row in csv.reader(lines) if row)


def list_paths(data: bytes) -> tuple[str, ...]:
    """Return the paths that one of dpkg's lists has, escaped, without the slash before them."""
    return tuple(escape(line.removeprefix(b"/")) for line in data.split(b"\n") if line not in (b"", b"/."))


def packages(data: bytes) -> tuple[PackageFacts, ...]:
    """Return what dpkg's status has as installed."""
    found = []
    for stanza in data.decode("utf-8", "replace").split("\n\n"):
        fields = _fields(stanza)
        if fields.get("status", "").endswith(" installed"):
            fact = PackageFacts(
                name=fields.get("package", ""),
                version=fields.get("version", ""),
                architecture=fields.get("architecture", ""),
            )
            found.append(fact)
    return tuple(found)


def licence_text(data: bytes) -> str:
    """Return the licences that a copyright file states, or that it is for people only."""
    return copyright_licence(data) or UNSTATED


def first_line(head: bytes) -> str | None:
    """Return what stands after ``#!`` in the first line of a script; None for everything else."""
    if not head.startswith(b"#!"):
        return None
    # As the kernel does: a carriage return is part of the interpreter's name.
    return escape(head[2:].partition(b"\n")[0].strip(b" \t"))


def _fields(stanza: str) -> Mapping[str, str]:
    found = {}
    for line in stanza.split("\n"):
        key, colon, value = line.partition(":")
        if colon and not line.startswith((" ", "\t")):
            found[key.lower()] = value.strip()
    return found
