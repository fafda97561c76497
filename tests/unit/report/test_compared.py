# SPDX-License-Identifier: Apache-2.0
"""Comparing with a historical release: what is known is told, and that nothing of it can be derived."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from derive.cli.historical import told_of_historical
from derive.errors import InputErrors
from support.reported import everything


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, data in everything().items():
        file = tmp_path / "records" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (tmp_path / "pyproject.toml").write_text("[tool.derive]\nformat = 1\n")
    return tmp_path


def arguments(root: Path, **more: bool) -> argparse.Namespace:
    return argparse.Namespace(project=str(root), **more)


def test_two_historical_releases_are_compared_by_what_was_written_down(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told_of_historical(arguments(root), "release:e2", "release:e3") == 1
    told = capsys.readouterr()
    assert told.out.splitlines()[2].split() == ["identity:", "tool", "revision", "a" * 40, "b" * 40, "differs"]
    assert told.err.startswith("note: e2 and e3 cannot be derived")
    assert "1 of which" not in told.out


def test_what_is_known_of_one_alone_is_counted_and_shown_with_all(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told_of_historical(arguments(root), "release:e2", "release:e3")
    told = capsys.readouterr()
    told_of_historical(arguments(root, all=True), "release:e2", "release:e3")
    whole = capsys.readouterr()
    left_out = len(whole.out.splitlines()) - len(told.out.splitlines())
    assert not {"only first", "only second"} & {line[-len("only second") :].strip() for line in told.out.splitlines()}
    assert f"note: {left_out} rows of one alone not shown: --all" in told.err
    assert "not shown" not in whole.err


def test_one_may_be_a_release_that_can_be_derived(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told_of_historical(arguments(root, all=True), "release:e3", "release:demo-2") == 1
    told = capsys.readouterr()
    assert "note: e3 cannot be derived" in told.err
    assert "identity: image digest for linux/arm64" in told.out


def test_the_record_says_each_row_and_the_words(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told_of_historical(arguments(root, json=True), "release:e2", "release:e3")
    body = json.loads(capsys.readouterr().out)["body"]
    assert {row["relation"] for row in body["rows"]} == {"same", "differs", "only second"}
    assert body["words"][0].startswith("e2 and e3 cannot be derived")


def test_a_release_is_the_same_as_itself_alone(root: Path) -> None:
    assert told_of_historical(arguments(root), "release:e2", "release:e2") == 0
    assert told_of_historical(arguments(root), "release:e1", "release:e2") == 1


@pytest.mark.parametrize(("first", "second"), [("release:demo-1", "release:demo-2"), ("release:e1", "."), ("e1", "e2")])
def test_everything_else_is_left_to_the_comparison_of_what_can_be_derived(root: Path, first: str, second: str) -> None:
    assert told_of_historical(arguments(root), first, second) is None


def test_a_release_that_is_not_there_is_said(root: Path) -> None:
    with pytest.raises(InputErrors):
        told_of_historical(arguments(root), "release:e1", "release:nothing")
