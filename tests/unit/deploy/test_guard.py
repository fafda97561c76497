# SPDX-License-Identifier: Apache-2.0
"""The guard's program out of an image: every digest on the way is held against what names it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from derive.canonical import Digest, sha256
from derive.deploy.guard import GUARD_PATH, GuardFile, take_guard
from derive.derivations.model import FlatOutput, Identity, TreeOutput
from derive.errors import Corrupt, DeriveError, Missing
from derive.releases.facts import ImageFacts, Realised
from derive.store.memory import MemoryStore
from derive.trees.facts import facts_of
from derive.trees.listing import File, Listing
from derive.trees.nar import nar_digest
from support.archives import Tar, folder, hardlink, put, said, symlink, tar
from support.oci_registry import Image, image

PATH = GUARD_PATH[1:].encode()
OTHER = tar(Tar(name=b"etc/motd", data=b"hello"))


def program(data: bytes = b"the guard", mode: int = 0o755) -> bytes:
    return tar(
        folder(b"usr"), folder(b"usr/libexec"), folder(b"usr/libexec/derive"), Tar(name=PATH, data=data, mode=mode)
    )


def stored(store: MemoryStore, made: Image, changed: Mapping[Digest, bytes] | None = None) -> Digest:
    """Put an image into a store, some blobs with other bytes than their names say."""
    for data in made.blobs.values():
        put(store, data)
    digest = put(store, made.manifest)
    store._blobs.update(changed or {})
    return digest


def taken(*layers: bytes, facts: ImageFacts | None = None) -> GuardFile:
    store = MemoryStore()
    return take_guard(store, stored(store, image(*layers)), facts)


def refusal(*layers: bytes, facts: ImageFacts | None = None) -> str:
    with pytest.raises(DeriveError) as caught:
        taken(*layers, facts=facts)
    return said(caught.value)


def built(data: bytes, identity: Identity = "nar") -> ImageFacts:
    """Return what a release says of an image whose guard has these bytes."""
    tree = Listing.of({PATH: File(executable=True, size=len(data), sha256=sha256(data))})
    digest = nar_digest(tree, lambda *_: [data]) if identity == "nar" else facts_of(tree)
    realised = Realised(name="memguard", builder="script/1", outputs={"out": TreeOutput(digest, identity)})
    source = Realised(name="source", builder="fetch-url/1", outputs={"out": FlatOutput(Digest("11" * 32))})
    table = {Digest("22" * 32): realised, Digest("33" * 32): source}
    return ImageFacts(config=Digest("44" * 32), layers=(), capabilities=(), derivations=table)


def test_it_is_the_file_of_the_highest_layer_that_has_one() -> None:
    found = taken(OTHER, program(b"old"), program(b"new"), OTHER)
    assert (found.data, found.digest) == (b"new", sha256(b"new"))


@pytest.mark.parametrize("identity", ["nar", "facts"])
def test_it_is_the_one_that_the_release_says_was_built(identity: Identity) -> None:
    assert taken(program(), facts=built(b"the guard", identity)).data == b"the guard"
    assert "not the one that the release names" in refusal(program(), facts=built(b"another", identity))


def test_facts_that_name_no_guard_say_nothing_of_it() -> None:
    facts = ImageFacts(config=Digest("44" * 32), layers=(), capabilities=(), derivations={})
    assert taken(program(), facts=facts).data == b"the guard"


@pytest.mark.parametrize("part", ["manifest", "config", "layer"])
def test_bytes_that_are_not_what_their_digest_says_are_refused(part: str) -> None:
    real, false = image(program()), image(program(b"the guest"))
    blobs = [[Digest.parse(name) for name in made.blobs] for made in (real, false)]
    store = MemoryStore()
    if part == "manifest":
        changed = {sha256(real.manifest): false.manifest}
    else:
        place = ("config", "layer").index(part)
        changed = {blobs[0][place]: false.blobs[str(blobs[1][place])]}
    stored(store, false)
    digest = stored(store, real, changed)
    with pytest.raises(Corrupt) as caught:
        take_guard(store, digest)
    assert part in said(caught.value)


def test_a_layer_that_is_not_in_the_store_is_missing() -> None:
    made = image(program())
    store = MemoryStore()
    digest = stored(store, made)
    del store._blobs[Digest.parse(list(made.blobs)[1])]
    with pytest.raises(Missing, match="a layer that the store does not hold"):
        take_guard(store, digest)


@pytest.mark.parametrize(
    "layer",
    [
        tar(Tar(name=PATH[:-8] + b".wh.memguard")),
        tar(Tar(name=b"usr/.wh.libexec")),
        tar(Tar(name=b"usr/libexec/.wh..wh..opq")),
        tar(symlink(b"usr/libexec", b"elsewhere")),
    ],
    ids=["whiteout", "folder's whiteout", "opaque folder", "link above"],
)
def test_what_a_higher_layer_takes_away_is_not_taken_from_a_lower_one(layer: bytes) -> None:
    assert "hides it" in refusal(program(), layer)


@pytest.mark.parametrize(
    "layer",
    [
        program(mode=0o644),
        tar(symlink(PATH, b"/bin/true")),
        tar(Tar(name=b"a", data=b"a", mode=0o755), hardlink(PATH, b"a")),
    ],
    ids=["not executable", "symbolic link", "hard link"],
)
def test_what_is_no_program_of_its_own_is_refused(layer: bytes) -> None:
    assert "no program of its own" in refusal(layer)


def test_an_image_without_one_is_refused_by_the_place_where_it_should_be() -> None:
    assert GUARD_PATH in refusal(OTHER)
