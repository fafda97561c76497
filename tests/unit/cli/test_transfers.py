# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.cli.transfers import Outputs, Transfers


def test_every_tenth_is_told_once_even_when_bytes_go_again(capsys: pytest.CaptureFixture[str]) -> None:
    with Transfers("pushed") as shown:
        shown.expect(2, 1000)
        shown.start("a", 900)
        for count in (50, 60, 300, -200, 200, 490):
            shown.advance("a", count)
        shown.done("a")
        shown.advance("b", 100)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [f"pushed {n} of 1.0 kB" for n in ("110 B", "410 B", "900 B", "1.0 kB")]


def test_a_terminal_gets_a_bar_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Transfers("pulled") as shown:
        shown.expect(1, 10)
        shown.advance("a", 10)
        shown.done("a")
        shown.expect(1, 10)
        shown.note("by the way")
    assert "by the way" in capsys.readouterr().err


def test_outputs_are_told_out_of_all_of_them_with_the_bytes_until_then(capsys: pytest.CaptureFixture[str]) -> None:
    with Outputs("pushed") as shown:
        shown.count(0, 20)
        shown.advance("a", 1500)
        for there in range(1, 21):
            shown.count(there, 20)
    said = capsys.readouterr().err.splitlines()
    assert said == [f"pushed {there} of 20 outputs, 1.5 kB" for there in range(2, 21, 2)]


def test_a_terminal_gets_a_bar_of_outputs_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Outputs("pushed") as shown:
        shown.count(0, 2)
        shown.advance("a", 10)
        shown.count(2, 2)
        shown.note("by the way")
    assert "by the way" in capsys.readouterr().err
