# SPDX-License-Identifier: Apache-2.0
"""Where the deploys of a site are recorded: a numbered chain in the folder that is kept for the site.

Edge: reads and writes that folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from derive.canonical import Json
from derive.deploy.history import FOLDER, KIND, Deployed, deployed
from derive.errors import CheckFailed, DeriveError, InputErrors
from derive.images.documents import DocumentError
from derive.records.numbered import Numbered

DEPLOYS = Numbered(FOLDER, KIND)


def read_deploys(kept: Path) -> tuple[Deployed, ...]:
    """Return the deploys of a site, the first one first.

    Raises:
        InputErrors: when they cannot be read, or are of another version of derive; with their full path.
        CheckFailed: when one was edited, likewise.
    """
    found = []
    try:
        records = DEPLOYS.read(kept)
        for number, one in enumerate(records, start=1):
            try:
                found.append(deployed(one.body))
            except DocumentError as error:
                where = f"{FOLDER}/{number:04d}-{one.subject}.json"
                raise InputErrors.one(f"cannot be read: {error}", where=where) from error
    except DeriveError as error:
        raise unreadable(kept, FOLDER, error) from error
    return tuple(found)


def unreadable(kept: Path, folder: str, error: DeriveError) -> DeriveError:
    """Return an error about records that are kept of a site with their full paths, and the one way to go on."""
    place = kept / folder

    def full(where: str) -> str:
        return where if where.startswith("/") else f"{kept}/{where}"

    hint = f"nothing needs them to go on; to begin anew: mv {place} {place}.old"
    if isinstance(error, CheckFailed):
        return CheckFailed(error.message, where=full(error.where or ""), detail=error.detail, hint=hint)
    return InputErrors([replace(one, where=full(one.where), hint=hint) for one in error.problems()])


def add_deploy(kept: Path, one: Deployed) -> Path:
    """Record a deploy, and return the record's path; raises as :func:`add_record` does."""
    return add_record(kept, DEPLOYS, one.served.release, one.body())


def add_record(kept: Path, records: Numbered, subject: str, body: Mapping[str, Json]) -> Path:
    """Write the next record of a chain and return its path.

    Raises:
        InputErrors, CheckFailed: as :func:`read_deploys` does, of those before it.
        HostRefuses: when it cannot be written.
    """
    try:
        return records.add(kept, subject, body)
    except (InputErrors, CheckFailed) as error:
        raise unreadable(kept, records.folder, error) from error
