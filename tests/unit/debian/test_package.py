# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.archives import Dropped, unpack_deb
from derive.debian.package import load_deb
from derive.errors import Corrupt, InputErrors
from derive.store.memory import MemoryStore
from derive.trees.listing import EMPTY
from derive.trees.pack import NewFile, add_members
from support.archives import Tar, contents, deb, put, said


def test_an_unpacked_package_reads_back_as_it_was() -> None:
    store = MemoryStore()
    script = Tar(name=b"./postinst", data=b"#!/bin/sh\n", mode=0o755)
    archive = deb(Tar(name=b"./usr/bin/su", data=b"su", mode=0o4755), package="login", control=[script])
    package = load_deb(store, unpack_deb(store, put(store, archive), name="x").listing, name="x")
    assert package.label == "login:amd64"
    assert package.key == ("login", "amd64", "1.0-1")
    assert contents(store, package.data)[b"usr/bin/su"] == (b"su", "x")
    assert (package.has("postinst"), package.has("preinst")) == (True, False)
    assert package.notes == (Dropped(b"data/usr/bin/su", "mode 4755, setuid"),)


def test_a_tree_that_is_no_unpacked_package_is_refused() -> None:
    store = MemoryStore()
    with pytest.raises(InputErrors) as caught:
        load_deb(store, EMPTY, name="x.deb")
    assert "x.deb: control/control" in said(caught.value)
    listing = unpack_deb(store, put(store, deb()), name="x").listing
    wrong = add_members(store, [(b"notes", NewFile(executable=False, chunks=[b"nonsense\n"]))])[b"notes"]
    with pytest.raises(Corrupt, match="notes cannot be read"):
        load_deb(store, type(listing).of({**listing, b"notes": wrong}), name="x.deb")
