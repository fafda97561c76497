# SPDX-License-Identifier: Apache-2.0
"""``derive cache add``: what is wrong is told by the name of its option."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from derive.cli.cache.add import add_arguments, run
from derive.errors import InputErrors


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--order=-9999999999", "not a whole number from -2147483647 to 2147483647"),
        ("--patience=0", "not a whole number of seconds from 1 to 3600"),
        ("--patience=3601", "not a whole number of seconds from 1 to 3600"),
    ],
)
def test_a_number_beyond_its_bounds_is_told_with_its_option(
    option: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(InputErrors) as caught:
        run(parser.parse_args(["http://127.0.0.1:1/a", option]))
    assert [(one.where, one.message) for one in caught.value.problems()] == [(option.partition("=")[0], message)]
    assert not list(tmp_path.iterdir())


def test_a_host_without_a_scheme_is_wrong_whatever_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    for configured in ("", "http://127.0.0.1:1"):
        monkeypatch.setenv("DERIVE_MIRROR_OCI", configured)
        with pytest.raises(InputErrors) as caught:
            run(parser.parse_args(["team=127.0.0.1:5000/x"]))
        told = [one.message for one in caught.value.problems()]
        assert told == ["neither http:// nor https:// before '127.0.0.1:5000/x'"]
