# SPDX-License-Identifier: Apache-2.0
"""What several files of this folder share. Those that use it are one group of tests/conftest.py: it is made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.nodes import AtNode, Sshd, connected, sshd_nodes


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A real sshd, and a site whose three nodes are reached through it."""
    with sshd_nodes(tmp_path_factory.mktemp("ssh") / "sshd") as running:
        yield running


@pytest.fixture(scope="module")
def at_node(sshd: Sshd) -> Iterator[AtNode]:
    """Calls functions with the first of the nodes, which stays connected."""
    with connected(sshd) as at:
        yield at
