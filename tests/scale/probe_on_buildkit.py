# SPDX-License-Identifier: Apache-2.0
"""Every step of ``probe`` again, its scripts on BuildKit: equal trees for every output, and the same digest.

Takes minutes, so that `make test` does not collect it: `pytest tests/scale/probe_on_buildkit.py`, or `make scale`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.buildkit import client
from support.cli import derive
from support.derived import PLATFORMS, Derived
from support.docker_engine import ImageStore, default_binaries, docker_engine, why_unavailable
from support.require import skip_or_fail

pytestmark = [pytest.mark.docker, pytest.mark.sandbox]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_probe_is_the_same_on_both_executors(derived: Derived, tmp_path: Path, platform: str) -> None:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with (
        client(tmp_path / "docker") as builders,
        docker_engine(store=ImageStore.CONTAINERD, binaries=default_binaries()) as engine,
    ):
        builders.add("one", engine.url)
        arguments = ("image", "probe", "--platform", platform, "--check", "--executor", "buildkit=one", "--json")
        ran = derive(*arguments, "--store", str(derived.store), env=builders.environment, timeout_s=1800)
    body = json.loads(ran.answer)["body"]
    assert body["differences"] == []
    assert body["digest"] == derived.digests[platform]
