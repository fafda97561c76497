# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from derive.build.builders import VERSIONS
from derive.build.builders.table import BUILDERS
from support.cli import CHECKOUT


def test_every_builder_has_a_version_and_every_version_a_builder() -> None:
    assert BUILDERS.keys() == VERSIONS.keys()


def test_every_builder_has_its_page_which_states_its_version() -> None:
    for name, version in VERSIONS.items():
        page = CHECKOUT / "docs" / "builders" / f"{'fetch' if name.startswith('fetch-') else name}.md"
        assert f"version {version}" in page.read_text(), page.name
