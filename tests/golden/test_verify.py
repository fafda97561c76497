# SPDX-License-Identifier: Apache-2.0
"""What verifying the image ``probe`` finds on each platform: nothing undeclared, and known licences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from derive.verify.compare import recorded
from support.cli import derive
from support.derived import PLATFORMS, Derived
from support.golden import check_golden

ADVICE = """\
a finding is new: repair it, or declare it in images/verify/probe.toml with the reason
what else moved follows the lock"""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_image_has_the_findings_that_it_had(platform: str, derived: Derived, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    ran = derive("verify", "probe", "--platform", platform, "--store", str(derived.store), "--record", str(file))
    assert ran.code == 0, ran.err
    body = {key: value for key, value in recorded(file.read_bytes(), "record", "probe").items() if key != "looked_at"}
    text = json.dumps(body, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    check_golden(f"verify/probe-{platform.rpartition('/')[2]}.json", text, advice=ADVICE)


def test_a_second_run_answers_the_same_and_a_record_of_the_first_holds(derived: Derived, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    named = ("probe", "--platform", PLATFORMS[0], "--store", str(derived.store))
    first = derive("verify", *named, "--record", str(file), "--jobs", "1")
    second = derive("verify", *named, "--against", str(file), "--long", "--json")
    assert first.answer == "nothing is wrong"
    body = json.loads(second.answer)["body"]
    assert body["digest"] == derived.digests[PLATFORMS[0]]
    assert body["new_findings"] == []
    assert "no findings that the record does not have" in second.err
    other = derive("verify", "probe", "--platform", PLATFORMS[1], "--store", str(derived.store), "--against", str(file))
    assert other.code == 2
    assert f"expected  {PLATFORMS[1]}" in other.err
