# SPDX-License-Identifier: Apache-2.0
"""What the project says today of a release to be deployed: its records, its recipe's promotion keys, its branch.

Edge: the project's records and recipes; git, which only reads what was fetched.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from derive.deploy.policy import Standing
from derive.errors import InputErrors

if TYPE_CHECKING:
    from derive.deploy.target import Aimed
    from derive.recipes.resolved import Promotion


def standing(root: Path, aimed: Aimed, now_s: int, *, branch: str | None = None, experiment: bool = False) -> Standing:
    """Gather it; ``branch`` is the remote's branch that counts as published, None: the usual one.

    Raises:
        InputErrors, CheckFailed: when the chain of records is broken.
    """
    from derive.project import published_branch
    from derive.records.folder import files_below, sound
    from derive.releases.published import published

    chain = sound(files_below(root))
    served = aimed.target.served
    there = None if experiment else branch or published_branch(root)
    return Standing(
        chain=chain,
        release=aimed.known.release,
        promotion=_promotion(root, served.recipe, served.shape),
        published=None if there is None else published(root, chain, served.release, served.shape, there),
        now_s=now_s,
        branch=there,
    )


def _promotion(root: Path, recipe: str, shape: str) -> Promotion | None:
    """Return what the recipe in the working tree says of a shape; None where it has no such shape, or is not sound."""
    from derive.project import load_launching
    from derive.recipes.load import load_recipe
    from derive.recipes.resolve import resolve

    try:
        return resolve(load_recipe(load_launching(root), recipe), shape).promotion
    except InputErrors:
        return None
