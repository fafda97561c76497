# SPDX-License-Identifier: Apache-2.0
"""What an image's file names and the image does not have: told with the key that names it."""

from __future__ import annotations

import pytest

from derive.canonical import Json
from derive.derivations import steps
from derive.derivations.model import BuiltInput, Derivation
from derive.errors import InputErrors
from derive.images.encoding import Encoding
from derive.images.modes import ModeTable, Rule
from derive.images.oci import ImageConfig
from derive.store.memory import MemoryStore
from derive.trees.listing import Symlink
from support.layers import tree
from support.realised import Realised


def image(store: MemoryStore, needed: dict[str, Json], *rules: Rule) -> Derivation:
    found = tree(store, {b"usr/tool": b"x", b"usr/link": Symlink(b"tool")})
    part = steps.composed("p", [("part", "", steps.work_tree("x", store.add_listing(found)))], {})
    layers = [steps.layer("l", [BuiltInput(part)], ModeTable().to_document(), Encoding().to_document())]
    modes = ModeTable.of(rules).to_document()
    return steps.image("i", "linux/amd64", ImageConfig().to_document(), modes, layers, part, needed=needed)


def test_a_capability_needs_a_file_or_a_link() -> None:
    store = MemoryStore()
    assert "out" in Realised(store)(image(store, {"c1": "usr/tool", "c2": "usr/link"}))


def test_what_an_image_lacks_is_told_all_at_once_with_the_keys_that_name_it() -> None:
    store = MemoryStore()
    needed: dict[str, Json] = {"c1": "usr", "c2": "bin/none"}
    with pytest.raises(InputErrors) as caught:
        Realised(store)(image(store, needed, Rule(path=b"srv"), Rule(path=b"usr/tool", mode=0o1755)))
    assert [(one.where, one.message) for one in caught.value.problems()] == [
        ("images/i.toml: capabilities.c1.file", "the image has a folder, and no file, at /usr"),
        ("images/i.toml: capabilities.c2.file", "the image has nothing at /bin/none"),
        ("images/i.toml: modes", "usr/tool is a file, and the sticky bit is for folders: 1755"),
        ('images/i.toml: modes."/srv"', "the image has nothing at this path"),
    ]
