# SPDX-License-Identifier: Apache-2.0
"""Print or write what each node is told: the files that start a shape of a recipe. Nothing is started.

Edge: the project, the site's file, the store, standard streams.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, table, wants_json
from derive.cli.options import image_digest, something
from derive.errors import InputErrors
from derive.render.show import RIGHT, Answer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from derive.canonical import Json
    from derive.render.chosen import Chosen

EXAMPLES = """\
  derive render                          what there is for each node, and the two digests
  derive render dgx1                     the script that starts that node's container
  derive render --out launch             all files of all nodes, in a folder
  derive render --shape tp3-triangle --site lab.toml
  derive render --release r7 --shape tp4-ring   from a release's content, with its image
  derive render --why long-prefill-token-threshold
  derive render --why VLLM_HOST_IP dgx2      what that node alone is told
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("node", nargs="?", type=something, metavar="NODE", help="one node alone (default: all)")
    parser.add_argument("--recipe", type=something, metavar="NAME", help="default: the one of the default image's name")
    parser.add_argument("--shape", type=something, metavar="NAME", help="default: the site's pick, else the recipe's")
    parser.add_argument(
        "--image", type=image_digest, metavar="DIGEST", help="all 64 digits (default: what the project makes now)"
    )
    parser.add_argument(
        "--release", type=something, metavar="NAME", help="from this release's content and image, not the working tree"
    )
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")
    parser.add_argument("--out", type=something, metavar="DIR", help="write the files into this folder")
    parser.add_argument("--why", type=something, metavar="KEY", help="say where a value comes from, and render nothing")


def run(args: argparse.Namespace) -> int:
    """Render, answer, and say what stands against a deploy: exit 1 then."""
    from derive.project import default_image
    from derive.render.chosen import Chosen

    root = project_root(args)
    chosen, usual = Chosen(recipe=args.recipe, shape=args.shape, site=args.site), default_image(root)
    if args.release is not None:
        return _released(args, root, chosen)
    if args.why is not None:
        return _why(args, root, chosen, usual)
    from derive.render.service import answered

    found = answered(root, chosen, os.environ, args.image, usual, lambda: project_of(args), lambda: store_folder(args))
    return _told(args, found)


def _released(args: argparse.Namespace, root: Path, chosen: Chosen) -> int:
    """Render from a release: its content and image, and its shape bundle must come out."""
    from derive.project import load_project
    from derive.render.released import placed, released_content
    from derive.render.service import answered

    if args.image is not None:
        raise InputErrors.one("--image and --release", hint="a release says which image: leave --image out")
    with released_content(root, args.release, store_folder(args)) as content:
        chosen = content.chosen(chosen)
        recipe = content.release.recipe
        if args.why is not None:
            return _why(args, content.root, chosen, recipe)
        shape, image = placed(content, chosen, os.environ)
        found = answered(
            content.root,
            chosen,
            os.environ,
            image,
            recipe,
            lambda: load_project(content.root),
            lambda: store_folder(args),
        )
        content.require_bundle(shape, str(found.body["shape-bundle"]))
    return _told(args, found)


def _told(args: argparse.Namespace, found: Answer) -> int:
    """Write, answer, and say what stands against a deploy."""
    _require_node(args.node, found.nodes, found.site_file)
    if args.out is not None:
        from derive.render.folder import write_folder

        write_folder(found.part(args.node), Path(args.out))
    _answer(args, found)
    for text in (*(f"note: {one}" for one in found.notes), *found.reasons):
        note(text)
    if args.image is not None:
        note("note: the image that --image names was not looked at: what it can do is as images/*.toml says")
    return 1 if found.reasons else 0


def _require_node(name: str | None, known: Sequence[str], site_file: str) -> None:
    if name not in (None, *known):
        hint = f"there is {', '.join(known)}"
        raise InputErrors.one(f"no node is called {name!r}", where=f"{site_file}: nodes", hint=hint)


def _answer(args: argparse.Namespace, found: Answer) -> None:
    if wants_json(args):
        answer_record("render", found.subject, found.body_of(args.node))
    elif args.node is not None and args.out is None:
        answer(found.files[f"{args.node}/run"])
    else:
        answer(f"{table(found.rows, right=RIGHT)}\n\n{table(found.facts)}")


def _why(args: argparse.Namespace, root: Path, chosen: Chosen, usual: str) -> int:
    from derive.recipes.why import why
    from derive.render.inputs import read_placed

    recipe, resolved, given = read_placed(root, chosen, os.environ, usual)
    lines = why(resolved, args.why)
    if args.node is not None:
        from derive.render.why_node import why_node

        _require_node(args.node, [node.name for node in given.site.nodes], given.file)
        lines = why_node(resolved, given.site, given.file, recipe.fabric, args.node, args.why) or lines
    if wants_json(args):
        explained: list[Json] = [*lines]
        answer_record("render-why", args.why, {"shape": resolved.shape, "lines": explained})
    else:
        answer("\n".join(lines))
    return 0
