# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.cache.artifact import (
    CONTENTS_TYPE,
    ENTRY_TYPE,
    LISTING_TYPE,
    SEGMENT,
    LogPiece,
    log_tag,
    output_manifest,
    output_tag,
    piece_of,
    read_output,
    read_piece,
)
from derive.canonical import sha256
from derive.derivations.model import FlatOutput, TreeOutput
from derive.errors import Corrupt
from derive.images.oci import Descriptor

TREE, FILE = TreeOutput(sha256(b"tree")), FlatOutput(sha256(b"file"))
LISTING = Descriptor(media_type=LISTING_TYPE, digest=sha256(b"listing"), size=7)
CONTENTS = Descriptor(media_type=CONTENTS_TYPE, digest=sha256(b"contents"), size=8)


def entry(number: int) -> Descriptor:
    return Descriptor(media_type=ENTRY_TYPE, digest=sha256(b"%d" % number), size=number)


def piece(first: int, count: int) -> LogPiece:
    return LogPiece(first=first, entries=tuple(entry(first + number) for number in range(count)))


def test_tags_say_how_an_output_is_named() -> None:
    assert output_tag(TREE) == f"nar-{TREE.digest.hex}"
    assert output_tag(TreeOutput(TREE.digest, "facts")) == f"facts-{TREE.digest.hex}"
    assert output_tag(FILE) == f"flat-{FILE.digest.hex}"
    assert log_tag(TREE.digest) == f"log-{TREE.digest.hex[:32]}"
    assert log_tag(TREE.digest, 3) == f"log-{TREE.digest.hex[:32]}-3"


def test_an_output_s_artifact_comes_back_and_other_tools_know_its_type() -> None:
    data = output_manifest(TREE, (LISTING, CONTENTS))
    assert read_output(data, TREE) == (LISTING, CONTENTS)
    assert json.loads(data)["artifactType"] == "application/vnd.derive.output.v1+json"
    file = Descriptor(media_type=CONTENTS_TYPE, digest=FILE.digest, size=4)
    assert read_output(output_manifest(FILE, (file,)), FILE) == (file,)


def test_the_artifact_of_another_output_is_refused() -> None:
    with pytest.raises(Corrupt, match="the artifact of another output"):
        read_output(output_manifest(FILE, (CONTENTS,)), TREE)
    with pytest.raises(Corrupt, match="another kind of output"):
        read_output(output_manifest(TREE, (CONTENTS,)), TREE)
    with pytest.raises(Corrupt, match="another output"):
        read_output(output_manifest(TREE, ()), TREE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("vnd.derive.output", "vnd.derive.other"),
        ('"size":7', '"size":-7'),
        ('"size":7', '"size":true'),
        (
            '"layers":[',
            '"layers":"',
        ),
        ("sha256:", "sha512:"),
        ('"annotations"', '"annotation"'),
    ],
)
def test_what_is_no_artifact_is_refused(old: str, new: str) -> None:
    data = output_manifest(TREE, (LISTING,)).decode()
    assert old in data
    with pytest.raises(Corrupt):
        read_output(data.replace(old, new).encode(), TREE)


def test_a_piece_of_a_log_comes_back() -> None:
    assert read_piece(piece(1, 3).encoded()) == piece(1, 3)
    assert piece(65, 2).last == 66
    assert [piece_of(number) for number in (1, SEGMENT, SEGMENT + 1)] == [0, 0, 1]


def test_a_full_piece_is_followed_by_another() -> None:
    full = piece(1, SEGMENT - 1).appended(entry(SEGMENT))
    assert full == piece(1, SEGMENT)
    assert full.appended(entry(SEGMENT + 1)) == piece(SEGMENT + 1, 1)


@pytest.mark.parametrize("wrong", [piece(2, 1), piece(1, SEGMENT + 1), piece(1, 0)])
def test_a_piece_that_is_not_cut_as_a_log_is_is_refused(wrong: LogPiece) -> None:
    with pytest.raises(Corrupt, match="not cut as a log is"):
        read_piece(wrong.encoded())


@pytest.mark.parametrize("first", ["", "0", "-1", "x", "9" * 13])
def test_a_piece_that_does_not_say_where_it_begins_is_refused(first: str) -> None:
    data = piece(1, 1).encoded().replace(b'"io.derive.log.first":"1"', f'"io.derive.log.first":"{first}"'.encode())
    with pytest.raises(Corrupt, match="does not say with which entry it begins"):
        read_piece(data)
