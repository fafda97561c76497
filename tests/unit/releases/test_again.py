# SPDX-License-Identifier: Apache-2.0
"""What a step of a release gave a second time: written, read back, and refused where it is another's."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.derivations.model import FlatOutput, Output, TreeOutput
from derive.images.documents import DocumentError
from derive.releases.again import AGAIN_FILE, read_again, write_again

ONE, TWO = sha256(b"one"), sha256(b"two")
OUTPUTS: dict[str, Output] = {"out": TreeOutput(ONE), "log": FlatOutput(TWO)}


def test_outputs_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    write_again(tmp_path, ONE, OUTPUTS)
    assert read_again((tmp_path / AGAIN_FILE).read_bytes(), ONE) == OUTPUTS


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"derive":"release-again/1"}'])
def test_what_is_no_such_document_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError):
        read_again(data, ONE)


def test_outputs_of_another_derivation_are_refused(tmp_path: Path) -> None:
    write_again(tmp_path, TWO, OUTPUTS)
    with pytest.raises(DocumentError, match="of another derivation"):
        read_again((tmp_path / AGAIN_FILE).read_bytes(), ONE)
