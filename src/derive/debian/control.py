# SPDX-License-Identifier: Apache-2.0
"""A package's control stanza: fields in their order, kept as written.

Core: no IO of its own; it reads through the store that it is given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from derive.archives.identity import Expected, Stated, check_identity
from derive.archives.names import broken, refused
from derive.store.protocol import Store, read_all
from derive.trees.listing import File, Listing

CONTROL = b"control/control"
_MAX_BYTES = 1 << 20
_FIELD = re.compile(r"([!-9;-~]+):[ \t]*(.*)")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_ARCHITECTURE = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Stanza:
    """The fields of one stanza; a value keeps its further lines, each with its leading blank."""

    fields: tuple[tuple[str, str], ...]

    def get(self, name: str, default: str = "") -> str:
        """Return a field's value; the case of its name does not matter."""
        wanted = name.lower()
        return next((value for field, value in self.fields if field.lower() == wanted), default)

    @property
    def package(self) -> str:
        """The package's name."""
        return self.get("Package")

    @property
    def version(self) -> str:
        """The full version, with epoch and revision."""
        return self.get("Version")

    @property
    def architecture(self) -> str:
        """Debian's name of the architecture, or ``all``."""
        return self.get("Architecture")

    @property
    def multi_arch_same(self) -> bool:
        """Whether the package may be installed for several architectures at once."""
        return self.get("Multi-Arch") == "same"


def parse_stanza(archive: str, data: bytes) -> Stanza:
    """Parse the one stanza of a control file.

    Raises:
        Corrupt: when it is no stanza, a field comes twice, or Package, Version or Architecture is absent or malformed.
    """
    try:
        lines = data.decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise broken(archive, "a control file that is not UTF-8", path=CONTROL) from error
    fields: list[tuple[str, str]] = []
    for line in lines:
        found = _FIELD.fullmatch(line)
        if line[:1] in (" ", "\t") and fields and line.strip():
            name, value = fields[-1]
            fields[-1] = (name, f"{value}\n{line}")
        elif found:
            fields.append((found[1], found[2]))
        else:
            raise broken(archive, f"a control file with a line that is no field: {line[:60]!r}", path=CONTROL)
    stanza = Stanza(tuple(fields))
    if len({name.lower() for name, _ in fields}) != len(fields):
        raise broken(archive, "a control file with a field given twice", path=CONTROL)
    if (
        not _PACKAGE.fullmatch(stanza.package)
        or not _ARCHITECTURE.fullmatch(stanza.architecture)
        or not stanza.version
        or "\n" in stanza.version
    ):
        raise broken(archive, "a control file without a valid Package, Version and Architecture", path=CONTROL)
    return stanza


def read_control(archive: str, store: Store, listing: Listing) -> Stanza:
    """Return the control stanza of an unpacked .deb.

    Raises:
        InputErrors: when there is none, or it is not a small file.
        Corrupt: when it cannot be parsed.
    """
    entry = listing.get(CONTROL)
    if not isinstance(entry, File) or entry.size > _MAX_BYTES:
        raise refused(archive, CONTROL, "a .deb without a control file of less than 1 MiB")
    return parse_stanza(archive, read_all(store, entry))


def check_control(archive: str, store: Store, listing: Listing, expected: Expected | None) -> Stanza:
    """Return the control stanza of an unpacked .deb, which must be the expected package.

    Raises:
        InputErrors: naming what differs.
    """
    stanza = read_control(archive, store, listing)
    if expected is not None:
        stated = Stated(name=stanza.package, version=stanza.version, architectures=frozenset((stanza.architecture,)))
        check_identity(archive, expected, stated)
    return stanza
