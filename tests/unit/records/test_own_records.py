# SPDX-License-Identifier: Apache-2.0
"""The checkout's own records are as they were written."""

from __future__ import annotations

from derive.records.chain import read_chain, verify
from derive.records.folder import files_below
from derive.records.history import against_git
from derive.releases.evidence import evidence_problems
from support.cli import CHECKOUT


def test_the_chain_of_this_repository_is_sound_in_itself_and_against_its_commits() -> None:
    files = files_below(CHECKOUT)
    chain = read_chain(files)
    assert chain.entries
    found = [*verify(chain, files), *evidence_problems(CHECKOUT, chain), *against_git(CHECKOUT, files, chain).problems]
    assert found == []
