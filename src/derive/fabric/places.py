# SPDX-License-Identifier: Apache-2.0
"""Where the user's site file is, and what takes its place where there is none.

Edge: reads the environment that it is given, and one file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from derive.errors import InputErrors
from derive.fabric.examples import example, example_file
from derive.fabric.load import load_site_input
from derive.fabric.rule import SiteInput
from derive.fabric.site import Cabling, Site
from derive.fabric.site_file import VARIABLE, find_site, user_site

__all__ = ["VARIABLE", "Found", "find_site", "read_bytes", "read_site", "site_or_example", "user_site"]


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
    return load_site_input(read_bytes(path), str(path))


def read_bytes(path: Path, hint: str = "write one: derive site init") -> bytes:
    """Return a file's bytes; ``hint`` is the next step where it is not there.

    Raises:
        InputErrors: when it is absent or cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputErrors.one("no such file", where=str(path), hint=hint) from None
    except OSError as error:
        message = f"cannot be read: {(error.strerror or 'unknown reason').lower()}"
        raise InputErrors.one(message, where=str(path)) from error


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
    note = f"no site file: the example {file} is used, whose addresses are those of documentation (derive site init)"
    return Found(site=example(files, cabling), file=file, note=note)
