# SPDX-License-Identifier: Apache-2.0
"""The top level of a root tree as the sandbox sees it."""

from __future__ import annotations

from derive.canonical import sha256
from derive.sandbox.request import RootFile, RootFolder, RootLink, root_entries
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Symlink

FILE = File(executable=False, size=0, sha256=sha256(b""))


def test_top_level_of_a_listing_in_order_with_empty_folders_marked() -> None:
    entries: dict[bytes, Entry] = {
        b"usr/bin/sh": FILE,
        b"bin": Symlink(b"usr/bin"),
        b"tmp": DIRECTORY,
        b"tmpl": FILE,
        b"a\xff/b": DIRECTORY,
    }
    assert root_entries(Listing.of(entries)) == (
        RootFolder(name=b"a\xff", empty=False),
        RootLink(name=b"bin", target=b"usr/bin"),
        RootFolder(name=b"tmp", empty=True),
        RootFile(name=b"tmpl"),
        RootFolder(name=b"usr", empty=False),
    )


def test_an_empty_listing_has_no_top_level() -> None:
    assert root_entries(Listing.of({})) == ()
