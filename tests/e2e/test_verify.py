# SPDX-License-Identifier: Apache-2.0
"""Verifying a small image: what is answered, how exceptions and records change that, and what is reused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.store.local import LocalStore
from support.small import Small, small_project

KNOWN = """\
[[exceptions]]
rule = "interpreter"
path = "*"
reason = "the image has no shell"

[[exceptions]]
rule = "licence"
owner = "notes"
licence = "MIT"
reason = "made here"
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Small]:
    with small_project(tmp_path) as project:
        yield project


@pytest.mark.sandbox
def test_findings_are_answered_excepted_and_compared(small: Small, tmp_path: Path) -> None:
    found = small.here("verify")
    assert found.code == 1, found.err
    assert "interpreter  derivation hello  /usr/share/hello/run" in found.out
    assert "licence      deb notes" in found.out
    assert "next  interpreter: add the package that has it" in found.out

    record = tmp_path / "record.json"
    assert small.here("verify", "--record", str(record)).code == 1
    against = small.here("verify", "--against", str(record), "--json")
    assert against.code == 0, against.err
    assert json.loads(against.out)["body"]["new_findings"] == []

    digest = small.here("image").answer
    small.write("images/verify/small.toml", KNOWN)
    clean = small.here("verify", "--json")
    assert clean.code == 0, clean.out
    body = json.loads(clean.out)["body"]
    assert [one["findings"] for one in body["exceptions"]] == [3, 1]
    assert body["digest"] == digest, "a verify file moves no digest"
    assert small.here("verify").answer == "nothing is wrong"
    assert "the image has no shell" in small.here("verify", "--long").answer

    for name, reason in (("absent.json", "no such file"), (".", "cannot be read: is a directory")):
        refused = small.here("verify", "--against", str(tmp_path / name))
        assert (refused.code, refused.out) == (2, ""), refused.err
        assert f"{tmp_path / name}: {reason}" in refused.err

    small.write("images/verify/smal.toml", KNOWN)
    assert "did you mean small?" in small.here("verify").err


@pytest.mark.sandbox
def test_a_changed_tree_is_probed_again_and_no_other(small: Small) -> None:
    assert small.here("verify").code == 1
    small.edit("derivations/small/build.sh", "hello is built", "hello is built again")
    small.edit("derivations/small/build.sh", "for $DERIVE_HOST", "for the host $DERIVE_HOST")
    again = small.here("verify")
    assert again.code == 1
    assert "hello facts" in again.err
    assert "notes facts" not in again.err


@pytest.mark.sandbox
def test_damaged_facts_are_not_believed(small: Small) -> None:
    assert small.here("verify").code == 1
    with LocalStore(small.store, reading=True) as store:
        with store.database.cursor() as cursor:
            rows = cursor.execute("SELECT outputs FROM realisations WHERE builder LIKE 'facts/%'").fetchall()
        found = {Digest.parse(json.loads(row[0])["out"].removeprefix("flat:")) for row in rows}
        (united,) = (one for one in found if b"image-facts" in store.blob_path(one).read_bytes())
        path = store.blob_path(united)
    path.chmod(0o600)
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "files": {}}))
    small.write("images/verify/small.toml", KNOWN)
    again = small.here("verify")
    assert (again.code, again.out) == (3, "")
    assert f"the bytes of blob {united.short} no longer have its digest" in again.err
