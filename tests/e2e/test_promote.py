# SPDX-License-Identifier: Apache-2.0
"""From a candidate to a promotion and past its waiver, on a small real project; R3 of the cases with certificates."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.canonical import Digest, sha256
from derive.images.oci import named_blobs
from derive.records.folder import load
from derive.releases.policy import may_deploy
from derive.store.local import LocalStore
from support.oci_registry import registry
from support.promoting import HOSTS, certify, claim, promoted_project, write_site_and_facts
from support.releasing import commit, git
from support.small import Small

DAY_S = 86_400
RELEASE = ("release", "m-1", "--recipe", "model")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with promoted_project(tmp_path_factory.mktemp("made")) as small:
        assert small.here(*RELEASE).code == 0
        commit(small.root, "a release")
        yield small


@pytest.fixture
def small(made: Small, tmp_path: Path) -> Small:
    """Return a copy of the project with its release, for one test alone."""
    for folder in (made.root, made.store, made.home):
        shutil.copytree(folder, tmp_path / folder.name, symlinks=True)
    return Small(tmp_path / made.root.name, tmp_path / made.store.name, made.server, tmp_path / made.home.name)


def promote(small: Small, *arguments: str, shape: str = "four") -> Any:
    return small.here("promote", "m-1", "--shape", shape, *arguments)


def bench(small: Small, shape: str = "four") -> str:
    body = {"shape": shape, "release": "m-1", "nodes": 4, "transport": "none", "kernel_backend": None}
    document = {"derive": "record/1", "kind": "benchmark", "subject": shape, "previous": None, "body": body}
    small.write(f"records/benchmarks/{shape}.json", json.dumps(document))
    return f"records/benchmarks/{shape}.json"


def records(small: Small) -> list[str]:
    return sorted(path.name for path in (small.root / "records/releases").glob("*.json"))


def test_everything_that_is_missing_is_said_at_once_and_nothing_is_written(small: Small, tmp_path: Path) -> None:
    site, files = write_site_and_facts(tmp_path, int(time.time()) - 2 * DAY_S)
    found = promote(small, "--certified", "--site", site, "--facts", *files[:3], shape="off")
    assert (found.code, found.out) == (1, "")
    for text in (
        "shapes.off.promotion.launch-enabled: the recipe does not let it be launched",
        "records/certificates/m-1/: not certified by 2 builders on unlike hosts",
        "spark1.json: these facts are too old",
        "a site of another cabling",
        "shapes.off: no benchmark or release test of this shape",
        "error: m-1 is not promoted for off: 7 things are missing",
    ):
        assert text in found.err
    assert found.err.count("  hint: ") == 7
    told = json.loads(promote(small, "--json").out)["body"]
    assert told["file"] is None
    assert [one["hint"] is None for one in told["missing"]] == [False] * 4
    assert records(small) == ["0001-m-1.json"]


def test_a_release_is_promoted_on_the_word_of_two_builders_until_its_waiver_expires(
    small: Small, tmp_path: Path
) -> None:
    site, files = write_site_and_facts(tmp_path, int(time.time()))
    asked = ("--certified", "--site", site, "--facts", *files)
    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(time.time() + DAY_S))
    waiver = ("--waive", "no machine is free", "--expires", tomorrow)
    certify(small, "m-1", "ann")
    assert "linux/amd64: 1 builder of 2 (ann)" in promote(small, *asked, *waiver).err
    said = certify(small, "m-1", "ben")
    assert ("twice" in said, " ago" in said) == (True, False), "a certificate is of a derivation of one's own"
    counted = small.here("certify", "m-1", "--need", "2")
    assert (counted.code, "one machine under two names" in counted.err) == (1, True), counted.err
    (small.root / "records/certificates/m-1" / said.split("m-1/")[1].split()[0]).unlink()
    claim(small, "m-1", "ben")
    counted = small.here("certify", "m-1", "--need", "2")
    assert counted.code == 0
    assert "ann and ben: unlike hosts" in counted.err
    commit(small.root, "certificates")
    done = promote(small, *asked, *waiver)
    assert done.answer == "records/releases/0002-m-1-four.json"
    assert "git add records" in done.err
    assert f"not checked: benchmark or release test of this shape: waived until {tomorrow}" in done.err
    assert git(small.root, "status", "--porcelain") == "?? records/releases/0002-m-1-four.json"
    body = json.loads((small.root / done.answer).read_bytes())["body"]
    assert len(body["certificates"]) == 2
    again = promote(small, *asked, *waiver)
    assert (again.code, again.answer) == (0, done.answer)
    assert "it is promoted already, and nothing moved since" in again.err
    assert records(small) == ["0001-m-1.json", "0002-m-1-four.json"]
    assert (body["shape"], body["evidence"][0]["kind"], body["facts_age_s"] < 60) == ("four", "waiver", True)

    def against(now_s: int) -> list[str]:
        chain = load(small.root)
        return [one.message for one in may_deploy(chain, "m-1", "four", now_s=now_s, published=True)]

    now = int(time.time())
    assert against(now) == []
    assert against(now + 2 * DAY_S) == ["a waiver of four has expired: no machine is free"]
    early = promote(small, "--clear-waiver", "--evidence", bench(small, "off"), shape="off")
    assert (early.code, "no waiver of m-1 stands for off" in early.err) == (2, True)
    cleared = promote(small, "--clear-waiver", "--evidence", bench(small))
    assert cleared.answer == "records/releases/0003-m-1-four.json"
    assert against(now + 2 * DAY_S) == []
    body = json.loads((small.root / cleared.answer).read_bytes())["body"]
    assert [one["kind"] for one in body["evidence"]] == ["benchmark"]
    assert not any("waived" in text for text in body["unchecked"])
    assert small.here("records", "verify").code == 0


def test_what_is_derived_here_twice_is_promoted_and_once_retired_promoted_again(small: Small) -> None:
    assert small.here("release", "s-1", "--recipe", "serve").code == 0
    commit(small.root, "a release")
    asked = ("promote", "s-1", "--shape", "ring", "--check")
    done = small.here(*asked)
    assert done.answer == "records/releases/0003-s-1-ring.json"
    checked = json.loads((small.root / done.answer).read_bytes())["body"]["checked"]
    assert any(text.startswith("the image of linux/amd64 was derived here, ") for text in checked)
    assert "s-1" in small.here("releases").answer
    assert small.here("records", "add", "retired", "s-1", "--shape", "ring", "--why", "it hung").code == 0
    assert small.here("releases").answer.startswith("nothing may be deployed")
    again = small.here(*asked)
    assert again.answer == "records/releases/0005-s-1-ring.json"
    checked = json.loads((small.root / again.answer).read_bytes())["body"]["checked"]
    told = "s-1 was retired for ring, in 0004-s-1-ring-retired.json: it hung; this promotion takes that back for ring"
    assert told in checked
    assert "s-1" in small.here("releases").answer


def test_certificates_that_came_since_are_named_by_a_promotion_again_whichever_platform_they_are_of(
    small: Small,
) -> None:
    assert small.here("release", "s-1", "--recipe", "serve").code == 0
    small.here("key", "new", "eve").answer  # noqa: B018 - it must succeed
    asked = ("promote", "s-1", "--shape", "ring", "--check")

    def named(file: str) -> list[str]:
        found: list[str] = json.loads((small.root / "records/releases" / file).read_bytes())["body"]["certificates"]
        return found

    def digest(name: str, *platform: str) -> str:
        done = small.here("certify", "s-1", "--key", name, *platform, env={"DERIVE_MACHINE_ID": "e" * 32})
        return str(sha256((small.root / done.answer).read_bytes()))

    assert small.here(*asked).answer == "records/releases/0003-s-1-ring.json"
    assert named("0003-s-1-ring.json") == []
    strange = digest("eve")
    again = small.here(*asked)
    assert "it is promoted already, and nothing moved since" in again.err
    assert "not named: records/certificates/s-1/" in again.err, "what counts for nothing is told, and moves nothing"
    assert ": the project does not name this key" in again.err
    other = digest("ann", "--platform", "linux/arm64")  # the shape runs on amd64
    assert small.here(*asked).answer == "records/releases/0004-s-1-ring.json"
    assert named("0004-s-1-ring.json") == [other]
    own = digest("ben")
    assert small.here(*asked).answer == "records/releases/0005-s-1-ring.json"
    assert named("0005-s-1-ring.json") == sorted([other, own])
    assert strange not in named("0005-s-1-ring.json")
    assert small.here("key", "revoke", "ann", "--record", "--why", "stolen").code == 0
    assert small.here("records", "verify").code == 0
    (small.home / "derive/revoked-keys.json").unlink()  # as for another user, who has the project alone
    found = json.loads(small.here("certify", "s-1", "--need", "1", "--offline", "--json").out)["body"]
    assert found["counted"]["linux/arm64"] == ["ann"], "a record had named it before the key was lost"


def test_whether_a_shape_may_be_launched_is_what_the_recipe_says_today_whatever_else_moved(small: Small) -> None:
    said = "recipes/model.toml: shapes.{}.promotion.launch-enabled: the recipe does not let it be launched"
    small.edit("recipes/model.toml", "port = 8080", "port = 9090")
    small.edit("recipes/model.toml", "launch-enabled = false", "launch-enabled = true")
    assert said.format("off") not in promote(small, "--check", shape="off").err
    four = "\n[shapes.four.promotion]\nlaunch-enabled = false\n"
    small.write("recipes/model.toml", (small.root / "recipes/model.toml").read_text() + four)
    assert said.format("four") in promote(small, "--check").err
    small.edit("recipes/model.toml", four, four.replace("false", '"no"'))
    refused = promote(small, "--check")
    assert (refused.code, "shapes.four.promotion.launch-enabled: " in refused.err) == (2, True)


def test_a_threshold_that_was_lowered_stands_in_the_record_as_unchecked(small: Small) -> None:
    assert small.here("release", "s-1", "--recipe", "serve").code == 0
    claim(small, "s-1", "ann")
    done = small.here("promote", "s-1", "--shape", "ring", "--certified", "--need", "1")
    said = "the project's threshold of 2 was lowered to 1"
    assert said in json.loads((small.root / done.answer).read_bytes())["body"]["unchecked"]
    assert f"not checked: {said}" in done.err


def test_what_a_thief_signs_counts_no_more_and_what_was_recorded_before_does(small: Small, tmp_path: Path) -> None:
    site, files = write_site_and_facts(tmp_path, int(time.time()))
    before = [claim(small, "m-1", name).name for name in HOSTS]
    asked = ("--certified", "--site", site, "--facts", *files, "--evidence", bench(small))
    assert promote(small, *asked).code == 0
    small.here("key", "new", "ann-2").answer  # noqa: B018 - it must succeed
    assert small.here("key", "rotate", "ann", "ann-2").answer == "records/keys/0001-ann.json"
    assert small.here("certify", "m-1", "--need", "2").code == 0, "what was recorded before the rotation still counts"
    assert small.here("key", "revoke", "ben", "--record", "--why", "stolen").answer.startswith("sha256:")
    assert small.here("certify", "m-1", "--need", "2", "--offline").code == 0
    (small.home / "derive/revoked-keys.json").unlink()  # as for another user, who has the project alone
    assert small.here("certify", "m-1", "--need", "2", "--offline").code == 0
    refused = small.here("certify", "m-1", "--key", "ben")
    assert (refused.code, "was revoked: what it signs now never counts" in refused.err) == (2, True)
    forged = claim(small, "m-1", "ben", made_s=1)
    assert forged.name == before[1].replace(".dsse", "-2.dsse"), "an earlier certificate is not replaced"
    found = json.loads(small.here("certify", "m-1", "--need", "2", "--json").out)["body"]
    worth = {one["file"].rpartition("/")[2]: one["signed"][0]["worth"] for one in found["certificates"]}
    assert sorted(worth.values()) == ["builder", "builder", "ended"]
    assert worth[forged.name] == "ended", "that it says it is old proves nothing"


def test_the_name_of_a_signer_whose_key_was_rotated_means_two_keys_and_says_which_is_which(small: Small) -> None:
    small.here("key", "new", "ann-2").answer  # noqa: B018 - it must succeed
    assert small.here("key", "rotate", "ann", "ann-2").code == 0
    listed = json.loads(small.here("key", "list", "--json").out)["body"]["keys"]
    old, new = (one for one in listed if "ann" in one["names"])
    assert (old["trusted"], old["rotated_s"] is None, old["revoked"]) == (False, False, False)
    assert (new["trusted"], new["rotated_s"], new["revoked"]) == (True, None, False)
    other = {"XDG_DATA_HOME": str(small.home / "another user's")}
    for who in ({}, other):
        refused = small.here("key", "revoke", "ann", env=who)
        assert refused.code == 2
        assert f"may be    {old['id']}: rotated 20" in refused.err
        assert f"may be    {new['id']}: in use, trusted here as ann" in refused.err
    done = small.here("key", "revoke", old["id"][7:19], "--record", "--why", "stolen", env=other)
    assert f"the key that took its place stays: where you did not make it, revoke it too: {new['id']}" in done.err
    row = next(line for line in small.here("key", "list").answer.splitlines() if old["id"] in line)
    assert row.split()[2:] == ["yes", time.strftime("%Y-%m-%d", time.gmtime(old["rotated_s"])), "yes"]


def test_a_certificate_for_another_image_of_the_release_is_an_alarm(small: Small) -> None:
    claim(small, "m-1", "ann")
    claim(small, "m-1", "ben", image=sha256(b"another"))
    found = small.here("certify", "m-1", "--need", "1")
    assert found.code == 1
    assert "ALARM: records/certificates/m-1/" in found.err
    for proof in (("--certified", "--need", "1"), ("--check",)):
        assert "a builder contradicts the release" in promote(small, *proof).err


def test_what_does_not_come_out_as_recorded_is_neither_certified_nor_promoted(small: Small) -> None:
    with LocalStore(small.store) as store:
        digest = json.loads((small.root / "records/releases/0001-m-1.json").read_bytes())["body"]["images"]
        manifest = b"".join(store.read_blob(Digest.parse(digest["linux/amd64"])))
        layer = named_blobs(manifest)[1].digest
        path = store.blob_path(layer)
        data = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    certified = small.here("certify", "m-1", "--key", "ann", env={"DERIVE_MACHINE_ID": HOSTS["ann"]})
    assert certified.code != 0
    assert not (small.root / "records/certificates").exists()
    assert promote(small, "--check").code != 0
    assert records(small) == ["0001-m-1.json"]


def test_that_a_key_is_no_builders_is_said_before_anything_is_derived(small: Small) -> None:
    small.here("key", "new", "eve").answer  # noqa: B018 - it must succeed
    done = small.here("certify", "m-1", "--key", "eve", "--platform", "linux/amd64")
    assert done.code == 0, done.err
    assert (
        "is no builder's here: what it signs counts once `builders` of [tool.derive.trust]" in done.err.split("\n")[0]
    )
    assert done.err.count("no builder's here") == 1


def test_an_edited_record_or_a_moved_working_tree_is_told(small: Small) -> None:
    small.edit("derivations/small/build.sh", "hello is built", "hello is built again")
    one = ("certify", "m-1", "--key", "ann", "--platform", "linux/amd64")
    done = small.here(*one, env={"DERIVE_MACHINE_ID": HOSTS["ann"]})
    assert done.code == 0
    assert "the working tree is not what m-1 was made of: a checkout of it was derived" in done.err
    record = small.root / "records/releases/m-1/facts.json"
    record.write_bytes(record.read_bytes().replace(b'"small"', b'"smell"', 1))
    found = promote(small, "--check")
    assert found.code == 1
    assert "facts.json: not what 0001-m-1.json names: edited since" in found.err
    assert "no benchmark or release test of this shape" in found.err, "with everything else that is missing"
    edited = small.here("certify", "m-1", "--need", "1")
    assert (edited.code, "records/releases/m-1/facts.json" in edited.err) == (1, True)
    for words in (("records", "show", "m-1"), ("releases", "--all"), ("records", "checkout", "m-1", "--output", "x")):
        ran = small.here(*words)
        assert (ran.code, "not what 0001-m-1.json names" in ran.err) == (2, True), words


def test_a_revocation_that_was_committed_is_not_taken_away_unnoticed(small: Small, tmp_path: Path) -> None:
    for name in HOSTS:
        claim(small, "m-1", name)
    assert small.here("key", "revoke", "ben", "--record", "--why", "stolen").code == 0
    (small.home / "derive/revoked-keys.json").unlink()  # as for another user, who has the project alone
    commit(small.root, "ben is out")
    assert small.here("certify", "m-1", "--need", "2", "--offline").code == 1
    (small.root / "records/keys/0001-ben.json").unlink()
    site, files = write_site_and_facts(tmp_path, int(time.time()))
    for words in (
        ("certify", "m-1", "--need", "2", "--offline"),
        ("certify", "m-1", "--key", "ann"),
        ("promote", "m-1", "--shape", "four", "--certified", "--site", site, "--facts", *files),
        ("attest", "small", "--check"),
        ("records", "verify"),
    ):
        ran = small.here(*words)
        assert ran.code == 1, (words, ran.err)
        assert "records/keys/0001-ben.json: gone, and commit " in ran.out + ran.err, words
    for words in (
        ("release", "m-2", "--recipe", "model"),
        ("records", "add", "retired", "m-1", "--why", "x"),
        ("key", "rotate", "ann", "ann"),
    ):
        ran = small.here(*words)
        assert (ran.code, "records/keys/0001-ben.json" in ran.err) == (2, True), words


def test_an_empty_benchmark_promotes_nothing(small: Small) -> None:
    document: dict[str, Any] = {"derive": "record/1", "kind": "benchmark", "subject": "x", "previous": None, "body": {}}
    small.write("records/benchmarks/four.json", json.dumps(document))
    ran = promote(small, "--evidence", "records/benchmarks/four.json")
    assert ran.code == 2
    assert "four.json: body: a benchmark that does not say of what it is" in ran.err
    assert records(small) == ["0001-m-1.json"]


def test_r3_an_image_stays_what_it_is_when_it_is_certified_pushed_and_pulled(small: Small, tmp_path: Path) -> None:
    image = small.here("image").answer
    with LocalStore(small.store) as store:
        before = {one.digest for one in named_blobs(b"".join(store.read_blob(Digest.parse(image))))}
    done = small.here("attest", "--key", "ann", "--certificate", env={"DERIVE_MACHINE_ID": HOSTS["ann"]})
    assert [line.split()[0] for line in done.answer.splitlines()] == ["provenance", "sbom", "certificate"]
    once = small.here("certify", "m-1", "--key", "ben", "--attach", env={"DERIVE_MACHINE_ID": HOSTS["ben"]})
    assert once.code == 0
    assert small.here("image").answer == image
    small.edit("pyproject.toml", "threshold = 2", "threshold = 1")
    checked = small.here("attest", "--check")
    assert checked.code == 0, checked.err
    with registry(tmp_path / "registry") as real:
        url = ("--registry", real.url)
        assert small.here("push", "team/small:1", *url).code == 0
        other = ("--store", str(tmp_path / "other"))
        assert small.here("pull", f"team/small@{image}", *url, *other).answer == image
    with LocalStore(tmp_path / "other") as store:
        assert {one.digest for one in named_blobs(b"".join(store.read_blob(Digest.parse(image))))} == before
    for file in (small.root / "records/certificates/m-1").iterdir():
        file.unlink()
    there = small.here("certify", "m-1", "--need", "1", *other)
    assert "ben" in there.out, "what came with the image is counted, too"
    assert small.here("certify", "m-1", "--need", "1", "--offline").code == 1
