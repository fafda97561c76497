# SPDX-License-Identifier: Apache-2.0
"""The example of each cabling, with addresses of documentation, for whoever has no site yet.

Core: no IO. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.errors import InputErrors
from derive.fabric.load import load_site
from derive.fabric.site import Cabling, Site


def example_file(cabling: Cabling) -> str:
    """Return the path of a cabling's example below the project."""
    return f"fabric/examples/{cabling}.toml"


def example_note(file: str, because: str = "no site file") -> str:
    """Say which example takes a site's place, and why."""
    return f"{because}: the example {file} is taken, whose addresses are those of documentation"


def example(files: Mapping[str, bytes], cabling: Cabling) -> Site:
    """Return the example of a cabling from a project's files, by their path below it.

    Raises:
        InputErrors: when it is absent or wrong.
    """
    path = example_file(cabling)
    data = files.get(path)
    if data is None:
        raise InputErrors.one(
            "no such file, and there is no site to take its place",
            where=path,
            hint="write a site file: derive site init",
        )
    return load_site(data, path, example=True)
