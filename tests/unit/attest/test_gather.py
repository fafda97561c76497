# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from derive.attest.attach import attest
from derive.attest.check import attached, check_attestations
from derive.attest.facts import ImageFacts
from derive.attest.gather import image_facts, image_here
from derive.attest.provenance import provenance
from derive.attest.sets import lock_sets
from derive.attest.statement import ENVELOPE_TYPE
from derive.build.engine import engine_digest
from derive.canonical import Digest, Json, encode, sha256
from derive.derivations.model import closure
from derive.derivations.scope import load_scope
from derive.errors import InputErrors, Missing
from derive.images.oci import MANIFEST_TYPE
from derive.images.referrers import attach, referrers_of
from derive.project import load_project
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy
from support.attested import facts, tiny
from support.cli import CHECKOUT
from support.stored import add_blob

KEY, OTHER = SigningKey(b"k" * 32), SigningKey(b"o" * 32)
POLICY = Policy(keys={"build": KEY.public}, threshold=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as store:
        yield store


def no_project() -> NoReturn:
    raise InputErrors.one("no project here")


def derived(store: LocalStore, *, forget: str = "") -> ImageFacts:
    """Put an image into a store as a build leaves it, but for a step that the store has forgotten."""
    known = facts(tiny())
    part: dict[str, Json] = {"mediaType": "text/plain", "size": 1}
    manifest: dict[str, Json] = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {**part, "digest": str(sha256(b"config"))},
        "layers": [{**part, "digest": str(one)} for one in known.layers],
    }
    image = add_blob(store, encode(manifest))
    outputs = {**known.graph.outputs, known.derivation: {"out": f"flat:{image}"}}
    known = replace(known, image=image, graph=replace(known.graph, outputs=outputs), parameters=None)
    for one in closure(tiny()):
        if one.name != forget:
            row = Realisation(
                resolved=known.resolved.get(one.id, one.id),
                outputs=known.graph.outputs[one.id],
                builder=f"{one.builder}/{one.version}",
                engine=known.engine.hex,
                host="",
                duration_ns=1,
                log="",
                built_s=1,
            )
            store.database.add_realisation(row, one.id, one.name, encode(one.document()))
    return known


def test_an_image_by_digest_is_known_with_all_that_it_came_from(store: LocalStore) -> None:
    known = derived(store)
    found = image_facts(store, no_project, f"sha256:{known.image.hex[:16]}", None)
    assert provenance(found) == provenance(known)
    assert (found.layers, found.engine, found.licences) == (known.layers, known.engine, {})


def test_an_engine_that_nobody_recorded_is_taken_for_this_one(store: LocalStore) -> None:
    known = derived(store)
    with store.database.cursor() as cursor:
        cursor.execute("UPDATE realisations SET engine = ''")
    assert image_facts(store, no_project, str(known.image), None).engine == engine_digest()


def test_what_the_store_has_forgotten_is_named(store: LocalStore) -> None:
    known = derived(store, forget="root")
    with pytest.raises(Missing, match="does not know all that tiny"):
        image_facts(store, no_project, str(known.image), None)
    assert image_here(store, no_project, str(known.image), None) == (known.image, None)


def test_an_image_that_came_from_elsewhere_is_known_by_its_digest_alone(store: LocalStore) -> None:
    image = add_blob(store, b'{"mediaType":"other"}')
    assert image_here(store, no_project, str(image), None) == (image, None)
    with pytest.raises(Missing):
        image_facts(store, no_project, str(image), None)


def test_an_image_that_came_with_statements_alone_is_told_with_where_they_lie(store: LocalStore) -> None:
    known = derived(store)
    image = add_blob(store, b'{"mediaType":"other"}')
    attest(store, replace(known, image=image), [KEY])
    attach(store, image, "text/plain", b"no statement", {})
    with pytest.raises(Missing) as caught:
        image_facts(store, no_project, str(image), None)
    blobs = dict(attached(store, image))
    assert sorted(blobs) == ["provenance", "sbom"]
    assert "came to be is not known to this store" in caught.value.message
    assert caught.value.detail == (f"provenance  {blobs['provenance']}", f"sbom        {blobs['sbom']}")
    check, _, place = str(caught.value.hint).partition(" --check, or find the file to read: ")
    assert (check, place) == (f"derive attest {image}", f"derive store path {blobs['provenance']}")


def test_what_is_no_image_is_refused(store: LocalStore) -> None:
    known = derived(store)
    (other,) = (node for node in known.graph.nodes.values() if node.name == "root")
    for text in (f"drv:{other.id.hex}", "drv:probe"):
        with pytest.raises(InputErrors):
            image_facts(store, lambda: load_project(CHECKOUT), text, None)


def test_the_sets_of_an_image_are_those_below_its_layers() -> None:
    scope = load_scope(load_project(CHECKOUT))
    assert lock_sets(scope, "probe") == ("probe", "trixie")


def test_what_the_same_keys_said_before_is_let_go(store: LocalStore) -> None:
    known = derived(store)
    other = attach(store, known.image, "text/plain", b"of another kind", {})
    first = attest(store, known, [KEY])
    apart = attest(store, known, [OTHER])
    later = attest(store, replace(known, engine=sha256(b"a later engine")), [KEY])
    expected = {other, *(one.manifest for one in apart), *(one.manifest for one in later)}
    assert set(referrers_of(store, known.image)) == expected
    assert {one.manifest for one in first} - expected, "the engine stands in the provenance"


def test_the_same_said_again_is_attached_once(store: LocalStore) -> None:
    known = derived(store)
    assert attest(store, known, [KEY]) == attest(store, known, [KEY])
    assert len(referrers_of(store, known.image)) == 2


def test_what_was_attached_holds_and_what_is_damaged_is_passed_over_and_proves_nothing(store: LocalStore) -> None:
    known = derived(store)
    (made, _) = attest(store, known, [KEY])
    assert check_attestations(store, known.image, known, POLICY, frozenset()).findings == ()
    envelope = _blob(store, made.manifest)
    path = store.blob_path(envelope)
    path.chmod(0o600)
    path.write_bytes(b"damaged")
    found = check_attestations(store, known.image, known, POLICY, frozenset())
    assert found.findings == ("provenance: there is none",)
    assert found.unreadable == {made.manifest: f"the bytes of blob {envelope.short} no longer have its digest"}
    path.unlink()
    found = check_attestations(store, known.image, known, POLICY, frozenset())
    assert str(envelope) in found.unreadable[made.manifest]
    with LocalStore(store.root) as again:
        assert attest(again, known, [KEY])[0] == made
        assert check_attestations(again, known.image, known, POLICY, frozenset()).findings == ()


@pytest.mark.parametrize("data", [b"rubbish", b"[" * 100_000, b"\xff", b"{}"])
def test_what_others_attach_and_nobody_can_read_breaks_nothing(store: LocalStore, data: bytes) -> None:
    known = derived(store)
    attest(store, known, [KEY])
    added = attach(store, known.image, ENVELOPE_TYPE, data, {})
    found = check_attestations(store, known.image, known, POLICY, frozenset())
    assert (found.findings, list(found.unreadable)) == ((), [added])
    assert "recursion" not in found.unreadable[added]
    assert "Expecting" not in found.unreadable[added]


def _blob(store: LocalStore, manifest: Digest) -> Digest:
    document = json.loads(b"".join(store.read_blob(manifest)))
    return Digest.parse(document["layers"][0]["digest"])
