# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import os
import pty
import sys

import pytest

from derive.cli.colour import wants_colour

PLAIN = argparse.Namespace(plain=True)
ANY = argparse.Namespace(plain=False)


def test_a_terminal_gets_colour_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pty.openpty()
    with os.fdopen(second, "w") as terminal, os.fdopen(first, "rb"):
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert wants_colour(ANY)
        assert not wants_colour(PLAIN)
        monkeypatch.setenv("NO_COLOR", "")
        assert wants_colour(ANY)
        monkeypatch.setenv("NO_COLOR", "1")
        assert not wants_colour(ANY)
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("TERM", "dumb")
        assert not wants_colour(ANY)
        monkeypatch.undo()


def test_a_pipe_and_a_closed_stream_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert not wants_colour(ANY)
    monkeypatch.setattr(sys, "stdout", None)
    assert not wants_colour(ANY)
