# SPDX-License-Identifier: Apache-2.0
"""The part of ``diff`` and ``why`` that is about what nodes are told: shapes, recipes, sites, rendered folders.

Edge: the project, the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.operands import Launching, Working, parse_launching

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Digest
    from derive.render.inputs import Inputs

HELP = "a name, image:, drv:, tree:, shape:, recipe: or site: with one, a rendered folder, a digest, or ."


def launching(*texts: str) -> tuple[Launching | Working, ...] | None:
    """Return operands of what nodes are told; None where all are of other kinds.

    Raises:
        InputErrors: when one is of these kinds, and another of none of them.
    """
    found = [_one(text) for text in texts]
    if not any(isinstance(one, Launching) for one in found):
        return None
    for text, one in zip(texts, found, strict=True):
        if one is None:
            from derive.errors import InputErrors

            hint = "shape:, recipe: or site: with a name or file, or a rendered folder"
            raise InputErrors.one(f"{text} is nothing that tells nodes anything", hint=hint)
    return tuple(one for one in found if one is not None)


def _one(text: str) -> Launching | Working | None:
    if text == ".":
        return Working()
    found = parse_launching(text)
    if found is not None or ":" in text:
        return found
    import os

    # Names of derivations have no such folder beside them; one that has is looked at before it is taken for a name.
    return Launching("bundle", text) if os.path.isfile(os.path.join(text, "manifest.json")) else None  # noqa: PTH113, PTH118


def run_launching(args: argparse.Namespace, operands: tuple[Launching | Working, ...], *, why: bool) -> int:
    """Compare two, and print what moved, or why; exit 1 for ``diff`` when something did."""
    import os

    from derive.cli.colour import wants_colour
    from derive.cli.console import answer, answer_record, project_of, project_root, store_folder, wants_json
    from derive.project import default_image
    from derive.shapes.find import Places, compare_launching
    from derive.shapes.lines import shape_body, shape_lines
    from derive.why.render import render

    def image(inputs: Inputs) -> Digest:
        from derive.render.service import derived_image

        return derived_image(inputs, lambda: project_of(args), store_folder(args))

    places = Places(
        root=lambda: project_root(args),
        usual=lambda: default_image(project_root(args)),
        environ=os.environ,
        image=image,
        site=getattr(args, "site", None),
    )
    first, second = operands
    found = compare_launching(first, second, places)
    if wants_json(args):
        answer_record("why" if why else "diff", found.after, shape_body(found, why=why))
    else:
        answer(render(shape_lines(found, why=why, everything=args.all), colour=wants_colour(args)))
    return 0 if why or found.same else 1
