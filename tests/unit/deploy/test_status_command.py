# SPDX-License-Identifier: Apache-2.0
"""What ``derive status`` answers where no service is known; the nodes are FAKE."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from derive.cli import status
from derive.deploy import look
from derive.deploy.node_errors import NodeUnreachable
from derive.errors import DeriveError
from support.deploying import target

SITE = target().bundle.site


@dataclass(frozen=True, slots=True)
class NothingKnown:
    """FAKE nodes that know no service; of ``troubles`` nothing is known."""

    troubles: Mapping[str, DeriveError] = field(default_factory=dict)

    async def services(self) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize(("lost", "code"), [(None, 0), ("spark2", 3)])
def test_nothing_is_known_to_be_deployed_while_a_node_cannot_be_asked(
    lost: str | None, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def lookout(*_: object) -> AsyncIterator[NothingKnown]:
        yield NothingKnown({} if lost is None else {lost: NodeUnreachable("no route to host", node=lost)})

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(look, "lookout", lookout)
    monkeypatch.setattr(status, "site_of", lambda _: SITE)
    assert status.run(argparse.Namespace(service=None, watch=False, json=False, site=None)) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing was deployed" in said.err
    assert ("spark2 cannot be asked: no route to host" in said.err) == (lost is not None)
