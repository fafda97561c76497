# SPDX-License-Identifier: Apache-2.0
"""Where the deploys of a site are recorded: a numbered chain in the folder that is kept for the site.

Edge: reads and writes that folder.
"""

from __future__ import annotations

from pathlib import Path

from derive.deploy.history import FOLDER, KIND, Deployed, deployed
from derive.records.numbered import Numbered

DEPLOYS = Numbered(FOLDER, KIND)


def read_deploys(kept: Path) -> tuple[Deployed, ...]:
    """Return the deploys of a site, the first one first; raises as :meth:`Numbered.read` does."""
    return tuple(deployed(one.body) for one in DEPLOYS.read(kept))


def add_deploy(kept: Path, one: Deployed) -> Path:
    """Record a deploy, and return the record's path."""
    return DEPLOYS.add(kept, one.served.release, one.body())
