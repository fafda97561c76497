# SPDX-License-Identifier: Apache-2.0
"""Which site and which service commands about machines mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from derive.cli.main import main
from derive.deploy.services import chosen, only_one
from derive.errors import InputErrors


def test_all_services_are_meant_where_none_is_named() -> None:
    assert chosen(None, ("a", "b")) == ("a", "b")


def test_a_service_that_no_node_knows_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputErrors) as caught:
        chosen("prob", ("probe", "ds41f"))
    assert caught.value.problems()[0].hint == "did you mean probe?"


def test_one_of_several_services_must_be_named() -> None:
    assert only_one("b", ("a", "b")) == "b"
    assert only_one(None, ("a",)) == "a"
    with pytest.raises(InputErrors) as caught:
        only_one(None, ("a", "b"))
    assert caught.value.problems()[0].hint == "name one: a, b"


def test_where_nothing_was_deployed_there_is_no_service_to_mean() -> None:
    with pytest.raises(InputErrors) as caught:
        only_one(None, ())
    assert caught.value.problems()[0].message == "nothing was deployed to this site"


@pytest.mark.parametrize("command", [["status"], ["drift"], ["logs", "spark1"], ["supervise"]])
def test_without_a_site_file_the_command_that_writes_one_is_named(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DERIVE_SITE", raising=False)
    assert main(command) == 2
    assert "hint: write one: derive site init; or name it: --site FILE" in capsys.readouterr().err
