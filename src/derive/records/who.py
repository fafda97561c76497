# SPDX-License-Identifier: Apache-2.0
"""Who writes a record: as git calls the person, else as this machine does.

Edge: git as a subprocess, the machine's accounts. It stands in records alone, and in no digest of what is deployed.
"""

from __future__ import annotations

import getpass
from pathlib import Path

from derive.doctor.git_facts import GitRefused, git
from derive.words import one_line


def who(root: Path, named: str | None = None) -> str:
    """Return the name that a person gave, else what git's settings in a project's folder say, else the account's."""
    if named:
        return named
    try:
        found = git(root, "config", "user.name").decode("utf-8", "replace").strip()
    except GitRefused:
        found = ""
    if found.strip():
        return one_line(found)
    try:
        return one_line(getpass.getuser())
    except (KeyError, OSError):
        return "unknown"
