# SPDX-License-Identifier: Apache-2.0
"""What several files of this ring share. Those that use it are one group of tests/conftest.py: it is made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.engine_nodes import EngineNodes, engine_nodes


@pytest.fixture(scope="session")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineNodes]:
    """Two nodes with an engine and an sshd each, one of each kind of image store: ``support.engine_nodes.STORES``."""
    with engine_nodes(tmp_path_factory.mktemp("n")) as running:
        yield running
