# SPDX-License-Identifier: Apache-2.0
"""`derive sbom`, `derive provenance` and `derive attest` on the project's own image: R3 of the cases."""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest
from derive.images.oci import named_blobs
from derive.store.local import LocalStore
from derive.trust.keyring import Keyring
from support.cli import Ran, derive
from support.derived import AMD64, Derived
from support.variants import copy_checkout

PREAMBLE = bytes.fromhex("302a300506032b6570032100")  # what stands before the bytes of an Ed25519 key in a SPKI file


class Place:
    """A project and a store of one's own, with keys of which the project trusts ``build``."""

    def __init__(self, root: Path, store: Path, data: Path) -> None:
        self.root = root
        self.store = store
        self._env = {"DERIVE_STORE": str(store), "XDG_DATA_HOME": str(data)}
        keys = Keyring(data / "derive")
        self.key, self.stranger = (keys.new(name).public for name in ("build", "stranger"))
        with (root / "pyproject.toml").open("a") as file:
            file.write(f'\n[tool.derive.trust.keys]\nbuild = "{self.key}"\n')

    def run(self, *arguments: str, env: dict[str, str] | None = None, shuffled: bool = False) -> Ran:
        """Run a command here."""
        return derive(*arguments, cwd=self.root, env={**self._env, **(env or {})}, shuffled=shuffled)

    def blob(self, digest: str) -> Any:
        """Return a blob of the store as a document."""
        return json.loads((self.store / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes())


@pytest.fixture(scope="module")
def place(derived: Derived, tmp_path_factory: pytest.TempPathFactory) -> Place:
    top = tmp_path_factory.mktemp("attest")
    return Place(copy_checkout(top / "check out"), images_alone(derived, top / "store"), top / "data")


def images_alone(derived: Derived, target: Path) -> Path:
    """Return a store that knows all that the tests' store knows, and of whose blobs it has the images' alone."""
    with LocalStore(target):
        pass
    source, copy = sqlite3.connect(derived.store / "derive.sqlite"), sqlite3.connect(target / "derive.sqlite")
    source.backup(copy)
    source.close()
    copy.close()
    with LocalStore(derived.store, reading=True) as store:
        for text in derived.digests.values():
            image = Digest.parse(text)
            for blob in (image, *(one.digest for one in named_blobs(b"".join(store.read_blob(image))))):
                path = target / "blobs" / "sha256" / blob.hex
                if not path.exists():
                    os.link(store.blob_path(blob), path)
    return target


def test_r3_an_image_stays_what_it_is_when_it_is_attested_and_its_attestations_hold(
    derived: Derived, place: Place, tmp_path: Path
) -> None:
    image = derived.digests[AMD64]
    attached = dict(line.split() for line in place.run("attest", "probe", "--key", "build").answer.splitlines())
    assert place.run("image", "probe").answer == image
    for kind, digest in attached.items():
        manifest = place.blob(digest)
        assert manifest["subject"]["digest"] == image, kind
        envelope = place.blob(manifest["layers"][0]["digest"])
        verify_with_openssl(envelope, str(place.key), tmp_path)
        said = json.loads(base64.b64decode(envelope["payload"]))
        assert said["subject"] == [{"name": "probe", "digest": {"sha256": image.removeprefix("sha256:")}}]
    assert place.run("store", "gc", "--keep", "run").code == 0
    checked = json.loads(place.run("attest", image, "--check", "--json").answer)["body"]
    assert (checked["image"], checked["compared"], checked["findings"]) == (image, True, [])


def test_what_only_a_stranger_signed_is_a_finding(place: Place) -> None:
    there = ("attest", "probe", "--platform", "linux/arm64")
    assert place.run(*there).code == 2, "unsigned has to be asked for"
    assert place.run(*there, "--key", "stranger", "--unsigned").code == 2, "one of the two"
    place.run(*there, "--key", "stranger")
    found = place.run(*there, "--check")
    assert found.code == 1
    assert f"{place.stranger.id.short} signed, which the project does not trust" in found.err


def test_both_are_the_same_bytes_in_another_place_order_and_locale(derived: Derived, place: Place) -> None:
    odd = {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "7"}
    for name in ("sbom", "provenance"):
        first = derive(name, "probe", "--store", str(derived.store))
        second = place.run(name, "probe", env=odd, shuffled=True)
        assert second.answer == first.answer, name
        assert str(derived.store) not in first.out
        assert os.uname().nodename not in first.out


def test_an_image_that_was_not_derived_here_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    found = derive("sbom", "probe", "--store", str(tmp_path / "none"))
    assert (found.code, found.out) == (3, "")
    assert "derive image probe --platform linux/amd64" in found.err
    assert not (tmp_path / "none").exists()


def test_what_is_no_image_is_refused(derived: Derived) -> None:
    found = derive("provenance", "perftest", "--store", str(derived.store))
    assert (found.code, found.out) == (2, "")
    assert "no image is named 'perftest'" in found.err


def verify_with_openssl(envelope: Any, key: str, folder: Path) -> None:
    """Check a signature with another program."""
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    (folder / "message").write_bytes(b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload))
    (folder / "key.der").write_bytes(PREAMBLE + base64.b64decode(key.removeprefix("ed25519:")))
    (signature,) = envelope["signatures"]
    (folder / "signature").write_bytes(base64.b64decode(signature["sig"]))
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key.der", "-rawin"]
    done = subprocess.run(
        [*command, "-in", "message", "-sigfile", "signature"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
