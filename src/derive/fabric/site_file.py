# SPDX-License-Identifier: Apache-2.0
"""Which file is the user's site.

Edge: the environment that it is given, and that one file. Imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from derive.infile import read_plain
from derive.net.user import user_config

VARIABLE = "DERIVE_SITE"
LARGEST = 1 << 20
"""Bytes of a site file; thousands of times what one has."""


def user_site(environ: Mapping[str, str]) -> Path:
    """Return where the user's site file lies, whether it is there or not."""
    return user_config(environ).with_name("site.toml")


def find_site(environ: Mapping[str, str], named: str | None) -> Path | None:
    """Return the site file: the one named, else ``$DERIVE_SITE``, else the user's; None where there is none.

    One that is named, by an argument or the variable, is returned whether it is there or not.
    """
    said = named or environ.get(VARIABLE)
    if said:
        return Path(said)
    usual = user_site(environ)
    return usual if usual.is_file() else None


def read_site_file(path: Path) -> tuple[bytes, int]:
    """Return the bytes and the mode of a site file; a link is followed.

    Raises:
        OSError: when it cannot be read, is no regular file, or is larger than ``LARGEST``.
    """
    return read_plain(path, LARGEST)
