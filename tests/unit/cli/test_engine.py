# SPDX-License-Identifier: Apache-2.0
"""``derive engine``: what it says of the engine that runs."""

from __future__ import annotations

import json
from pathlib import Path

from derive import __version__
from derive.engine.service import own_platform
from support.derived import AMD64, ARM64
from support.small import run_here


def body(*arguments: str) -> dict[str, str | None]:
    record = json.loads(run_here("engine", "--json", *arguments).answer)
    assert (record["kind"], record["subject"]) == ("engine", "derive")
    return dict(record["body"])


def test_the_engine_is_said_for_this_machine_and_nothing_is_derived() -> None:
    said = body()
    assert (said["version"], said["platform"], said["output"]) == (__version__, own_platform(), None)
    assert str(said["source"]).startswith("nar:sha256:")


def test_another_platform_has_the_same_source_and_another_derivation() -> None:
    first, second = body("--platform", AMD64), body("--platform", ARM64)
    assert {key for key in first if first[key] != second[key]} == {"platform", "derivation"}


def test_the_table_says_what_the_record_says() -> None:
    lines = run_here("engine").answer.splitlines()
    assert [line.split()[0] for line in lines] == ["derivation", "digest", "platform", "source", "version"]


def test_without_arguments_nothing_is_derived_and_usage_is_said(tmp_path: Path) -> None:
    for words in ((), ("--",)):
        ran = run_here("engine", "run", "--store", str(tmp_path / "store"), *words)
        assert (ran.code, ran.out) == (2, "")
        assert "nothing to run" in ran.err
        assert "derive engine run -- image NAME" in ran.err
    assert not (tmp_path / "store").exists()


def test_an_engine_of_another_platform_is_not_run_here() -> None:
    other = ARM64 if own_platform() == AMD64 else AMD64
    ran = run_here("engine", "run", "--platform", other, "--", "--version")
    assert (ran.code, ran.out) == (2, "")
    assert f"this machine runs engines of {own_platform()} alone" in ran.err
