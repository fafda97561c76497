# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.canonical import Digest, sha256
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.store.reach import Ability, Level, Node, ability, live_of, needs_of, node_of

IMAGE, DEB, TREE, ROOT = (sha256(text) for text in (b"image", b"deb", b"tree", b"root"))
A, B, C = (sha256(text) for text in (b"a", b"b", b"c"))
EMPTY: dict[str, Output] = {}


def document(builder: str, **inputs: object) -> dict[str, object]:
    return {"builder": f"{builder}/1", "inputs": inputs}


def built(key: Digest) -> dict[str, str]:
    return {"derivation": key.hex, "output": "out"}


def graph() -> dict[Digest, Node]:
    """An image from a script's tree, which is built in a root from one artifact."""
    fixed = {"fixed": str(FlatOutput(DEB))}
    return {
        A: node_of(document("image", layer=built(B)), {"out": FlatOutput(IMAGE)}),
        B: node_of(document("script", root=built(C), source=built(C)), {"out": TreeOutput(TREE)}),
        C: node_of(document("debian-root", archive=fixed), {"out": TreeOutput(ROOT)}),
    }


def test_a_closure_is_split_by_what_each_ability_takes() -> None:
    needs = needs_of([FlatOutput(IMAGE)], [A], graph())
    assert needs.run == {FlatOutput(IMAGE)}
    assert needs.rebuild == {FlatOutput(DEB)}
    assert needs.roots == {TreeOutput(ROOT)}
    assert needs.audit == {FlatOutput(IMAGE), TreeOutput(TREE), TreeOutput(ROOT)}
    assert (needs.gaps, needs.forgotten) == (0, 0)
    assert needs.derivations == {A, B, C}
    assert needs.kept(Level.RUN) < needs.kept(Level.REBUILD) < needs.kept(Level.AUDIT)


def test_what_the_store_never_heard_of_is_a_gap_and_what_it_forgot_is_told() -> None:
    nodes = graph()
    del nodes[C]
    nodes[B] = node_of(document("script", root=built(C)), EMPTY)
    needs = needs_of([FlatOutput(IMAGE)], [A], nodes)
    assert (needs.gaps, needs.forgotten, needs.roots) == (1, 1, frozenset())
    assert not needs.can(Level.REBUILD, lambda _: True)
    assert needs.can(Level.RUN, lambda _: True)


def test_a_root_that_nobody_knows_how_to_make_can_be_run_alone() -> None:
    needs = needs_of([FlatOutput(IMAGE)], [], {})
    assert [needs.can(level, lambda _: True) for level in Level] == [True, False, False]


def test_a_circle_ends() -> None:
    nodes = {A: node_of(document("script", source=built(A)), EMPTY)}
    assert needs_of([], [A], nodes).derivations == {A}


def test_what_came_with_an_artifact_counts_as_one_with_it() -> None:
    proof = FlatOutput(sha256(b"proof"))
    source = TreeOutput(TREE)
    node = node_of(document("patch", source={"fixed": str(source)}), EMPTY, {source: (source, proof)})
    assert node.fixed == (source, proof)


def test_live_trees_bring_their_blobs() -> None:
    live = live_of([TreeOutput(TREE), FlatOutput(DEB)], {TREE: (A,), ROOT: (B,)}, trees=[ROOT], blobs=[C])
    assert live.trees == {TREE, ROOT}
    assert live.blobs == {A, B, C, DEB}
    assert live.holds(TreeOutput(ROOT))
    assert not live.holds(TreeOutput(A))


def test_an_ability_is_kept_lost_or_was_never_there() -> None:
    needs = needs_of([FlatOutput(IMAGE)], [A], graph())
    assert ability(needs, Level.RUN, lambda _: True, lambda _: True) is Ability.YES
    assert ability(needs, Level.RUN, lambda _: True, lambda _: False) is Ability.LOST
    assert ability(needs, Level.RUN, lambda _: False, lambda _: False) is Ability.NO
