# SPDX-License-Identifier: Apache-2.0
"""The probe on this machine as it is, and on the same machine made to refuse."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from derive.errors import HostRefuses
from derive.sandbox.bwrap import Bubblewrap
from derive.sandbox.probe import find_sandbox, probe_host
from support.require import skip_or_fail

pytestmark = pytest.mark.sandbox

ASK = """
from derive.errors import HostRefuses
from derive.sandbox.probe import find_sandbox
try:
    print(find_sandbox())
except HostRefuses as error:
    print(error.message, *error.detail, error.hint, sep="\\n")
"""


def test_the_trial_is_quick(sandbox: Bubblewrap) -> None:
    start = time.monotonic()
    assert find_sandbox() == sandbox
    assert time.monotonic() - start < 1


def test_a_path_without_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostRefuses) as caught:
        find_sandbox()
    assert caught.value.message == "bubblewrap is not installed"


def test_a_bubblewrap_that_hardly_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text('#!/bin/sh\n[ "$1" = --version ] && echo bubblewrap 0.4.1 && exit\nexit 1\n')
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe_host().version == "bubblewrap 0.4.1\n"
    with pytest.raises(HostRefuses) as caught:
        find_sandbox()
    assert caught.value.message == f"{tmp_path}/bwrap is too old"


def test_a_machine_that_allows_no_user_namespaces(sandbox: Bubblewrap) -> None:
    # The setting is one of each user namespace: the machine itself keeps its own.
    assert sandbox.program
    shut = f"echo 0 > /proc/sys/user/max_user_namespaces && exec {sys.executable} -c '{ASK}'"
    done = subprocess.run(["unshare", "-Ur", "sh", "-c", shut], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        skip_or_fail(f"unshare does not work here: {done.stderr}")
    lines = done.stdout.splitlines()
    assert lines[0] == "this machine allows no user namespaces: user.max_user_namespaces is 0"
    assert lines[-1].startswith("sudo sysctl -w user.max_user_namespaces=")
