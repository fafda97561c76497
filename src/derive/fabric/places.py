# SPDX-License-Identifier: Apache-2.0
"""Where the user's site file is, and what takes its place where there is none.

Edge: reads the environment that it is given, and one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.fabric.examples import example, example_file, example_note
from derive.fabric.load import load_site_input
from derive.fabric.rule import SiteInput
from derive.fabric.site import Cabling, Site
from derive.fabric.site_file import LARGEST, VARIABLE, find_site, user_site
from derive.infile import read_named

__all__ = [
    "VARIABLE",
    "Found",
    "find_site",
    "read_bytes",
    "read_site",
    "read_site_bytes",
    "site_or_example",
    "user_site",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A site, the file that it was read from, and in words why that one where nobody named it."""

    site: Site
    file: str
    note: str | None = None


def read_site(path: Path) -> SiteInput:
    """Read a site file.

    Raises:
        InputErrors: when it cannot be read, or anything in it is wrong.
    """
    return load_site_input(read_site_bytes(path), str(path))


def read_site_bytes(path: Path) -> bytes:
    """Return the bytes of a site file.

    Raises:
        InputErrors: when it is absent, cannot be read, or can be no site file.
    """
    return read_named(path, largest=LARGEST, hint="write one: derive site init")


def read_bytes(path: Path, hint: str) -> bytes:
    """Return a file's bytes; ``hint`` is the next step where it is not there.

    Raises:
        InputErrors: when it is absent, cannot be read, or can hold no facts of a machine.
    """
    return read_named(path, largest=LARGEST, hint=hint)


def site_or_example(
    environ: Mapping[str, str], named: str | None, files: Mapping[str, bytes], cabling: Cabling
) -> Found:
    """Return the site, or the example of a cabling from the project's files where there is none.

    A site of another cabling is returned as it is: rules say that it does not fit.

    Raises:
        InputErrors: when the file, or the example, is absent or wrong.
    """
    path = find_site(environ, named)
    if path is not None:
        return Found(site=read_site(path).site, file=str(path))
    file = example_file(cabling)
    return Found(site=example(files, cabling), file=file, note=example_note(file))
