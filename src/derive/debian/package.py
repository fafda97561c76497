# SPDX-License-Identifier: Apache-2.0
"""An unpacked .deb as a value: its stanza, its control files, its data tree and what unpacking dropped.

Core: no IO of its own; it reads through the store that it is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.archives.names import broken
from derive.archives.notes import Note, from_text
from derive.debian.control import Stanza, read_control
from derive.store.protocol import Store, read_all
from derive.trees.listing import EMPTY, Directory, File, Listing

SCRIPTS_THAT_INSTALL = ("preinst", "postinst")
"""Scripts that dpkg would have run; the others act on removal, on questions, or on other packages."""

SCRIPTS_THAT_WAIT = ("prerm", "postrm", "config", "templates", "triggers")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpackedDeb:
    """One package. ``control`` and ``data`` are trees of their own; ``notes`` name paths below both."""

    stanza: Stanza
    control: Listing
    data: Listing
    notes: tuple[Note, ...] = ()

    @property
    def label(self) -> str:
        """What errors and logs call it: ``libc6:amd64``."""
        return f"{self.stanza.package}:{self.stanza.architecture}"

    @property
    def key(self) -> tuple[str, str, str]:
        """The order in which packages are taken, whatever the order in which they are given."""
        return (self.stanza.package, self.stanza.architecture, self.stanza.version)

    def has(self, script: str) -> bool:
        """Say whether the package has a control file of this name."""
        return isinstance(self.control.get(script.encode()), File)


def load_deb(store: Store, listing: Listing, *, name: str) -> UnpackedDeb:
    """Read the value back from the tree that ``unpack_deb`` made; ``name`` is what errors call it.

    Raises:
        InputErrors: when it has no control file.
        Corrupt: when the control file or the notes cannot be parsed.
    """
    notes = listing.get(b"notes")
    try:
        parsed = from_text(read_all(store, notes)) if isinstance(notes, File) else ()
    except ValueError as error:
        raise broken(name, f"an unpacked .deb whose notes cannot be read: {error}") from error
    return UnpackedDeb(
        stanza=read_control(name, store, listing),
        control=_below(listing, b"control"),
        data=_below(listing, b"data"),
        notes=parsed,
    )


def _below(listing: Listing, folder: bytes) -> Listing:
    return listing.below(folder) if isinstance(listing.get(folder), Directory) else EMPTY
