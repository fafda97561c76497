# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.canonical import sha256
from derive.derivations import steps
from derive.images.encoding import Encoding
from derive.images.modes import ModeTable
from derive.lock.documents import WheelEntry

MODES = ModeTable().to_document()
TREE = steps.work_tree("tree", sha256(b"tree"))
WHEELS = [
    WheelEntry(
        name=name,
        version="1.0",
        file=f"{name}-1.0-py3-none-any.whl",
        size=1,
        sha256=sha256(name.encode()),
        licence="MIT",
    )
    for name in ("one", "two")
]


def test_a_layer_that_carries_is_made_from_the_wheels_and_their_unpacked_trees_too() -> None:
    encoding = Encoding(name="gzip-members/2").to_document()
    layer = steps.layer("wheels", [TREE], MODES, encoding, wheels=WHEELS)
    assert sorted(layer.inputs) == ["archive.0", "archive.1", "members.0", "members.1", "tree.0"]
    assert layer.inputs["archive.1"].document() == {"fixed": f"flat:{sha256(b'two')}"}
    assert layer.inputs["members.1"].derivation == steps.unpack_wheel(WHEELS[1])
    assert layer.labels == (TREE.name, "one-1.0-py3-none-any.whl", "two-1.0-py3-none-any.whl")


def test_which_wheels_there_are_moves_the_id_of_a_layer_that_carries_and_of_no_other() -> None:
    for name, moves in (("gzip-members/1", False), ("gzip-members/2", True)):
        encoding = Encoding(name=name).to_document()
        ids = {steps.layer("x", [TREE], MODES, encoding, wheels=WHEELS[:count]).id for count in range(3)}
        ids.add(steps.layer("x", [TREE], MODES, encoding, wheels=WHEELS[::-1]).id)
        assert len(ids) == (4 if moves else 1)
