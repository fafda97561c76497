# SPDX-License-Identifier: Apache-2.0
"""From what a person writes for records to the records."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors, Problem
from derive.records.chain import Chain, read_chain
from derive.records.find import find_entries
from support.chained import two_releases
from support.reported import Records


def chain() -> Chain:
    return read_chain(two_releases().files)


def files(text: str) -> list[str]:
    return [one.file for one in find_entries(chain(), text)]


def refused(found: Chain, text: str) -> Problem:
    with pytest.raises(InputErrors) as caught:
        find_entries(found, text)
    (problem,) = caught.value.problems()
    return problem


def test_a_name_and_a_releases_digest_mean_all_records_about_it() -> None:
    every = [one for one in chain().entries if one.record.subject == "demo-2"]
    release = str(every[0].record.body["release"])
    for text in ("demo-2", "release:demo-2", release, release[7:], release[7:19], release[:19], f"release:{release}"):
        assert files(text) == [one.file for one in every]


def test_a_number_a_file_and_a_records_own_digest_mean_one_record() -> None:
    entry = chain().entries[2]
    digest = str(entry.digest)
    for text in ("3", "03", "0003", entry.file, entry.where, f"/elsewhere/{entry.where}", digest, digest[:19]):
        assert files(text) == [entry.file], text


def test_what_is_none_is_said_with_what_there_is() -> None:
    assert refused(chain(), "demo2").hint == "did you mean demo-2?"
    assert refused(chain(), "99").hint == f"the last is {chain().entries[-1].number:04d}"
    assert refused(chain(), "0123abc").hint == "of a digest, give 12 or more digits"
    assert refused(chain(), "quite-another").hint == "there is demo-1, demo-2"


def test_historical_ones_are_named_in_few_words() -> None:
    records = Records()
    for number in range(9):
        records.historical(f"e{number}")
    found = read_chain({path.removeprefix("releases/"): data for path, data in records.files.items()})
    assert refused(found, "quite-another").hint == "there is 9 historical ones, e0 to e8"
