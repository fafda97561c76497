# SPDX-License-Identifier: Apache-2.0
"""Pick the shape of a recipe that this site runs; without --apply, only show what would change in the site file.

Edge: environment, the project, the site's file, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_root, wants_json
from derive.cli.options import something
from derive.cli.site.places import add_site, require_site
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.fabric.site import Site

EXAMPLES = """\
  derive site shape tp4-ring                 shows the change
  derive site shape tp4-ring --apply         makes it
  derive site shape ring4 --recipe probe --apply
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("shape", type=something, metavar="NAME", help="a shape of the recipe")
    parser.add_argument("--recipe", type=something, metavar="NAME", help="default: that of the project's default image")
    parser.add_argument("--apply", action="store_true", help="change the file")
    add_site(parser)


def run(args: argparse.Namespace) -> int:
    """Judge the choice, show the change, and make it with --apply."""
    from difflib import unified_diff

    from derive.fabric.load import load_site
    from derive.fabric.places import read_site_bytes
    from derive.fabric.shapes_edit import with_shape
    from derive.fabric.write import replace

    path = require_site(args)
    data = read_site_bytes(path)
    site = load_site(data, str(path))
    recipe = _judged(args, site)
    before = data.decode()
    after = with_shape(before, recipe, args.shape, str(path))
    lines = unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=1)
    changed = before != after
    if args.apply and changed:
        replace(path, after)
    if wants_json(args):
        body = {"file": str(path), "recipe": recipe, "shape": args.shape, "changed": changed, "applied": args.apply}
        answer_record("site-shape", site.name, body)
    else:
        answer("\n".join(lines) if changed else f"{recipe} has the shape {args.shape} at {site.name}")
    if changed and not args.apply:
        note("nothing is changed yet: add --apply")
    return 0


def _judged(args: argparse.Namespace, site: Site) -> str:
    """Return the recipe's name, when it has such a shape and the shape is for the site's cabling."""
    from derive.project import load_launching
    from derive.recipes.load import load_recipe
    from derive.recipes.resolve import resolve

    root = project_root(args)
    name = args.recipe or _default(args)
    recipe = load_recipe(load_launching(root), name)
    cablings = {shape: resolve(recipe, shape).cabling for shape in recipe.shapes}
    fitting = ", ".join(sorted(shape for shape, cabling in cablings.items() if cabling == site.cabling)) or "none"
    hint = f"shapes for {site.cabling}: {fitting}"
    where = f"recipes/{name}.toml: shapes.{args.shape}"
    if args.shape not in cablings:
        raise InputErrors.one(f"{name} has no shape {args.shape}", where=f"recipes/{name}.toml: shapes", hint=hint)
    if cablings[args.shape] != site.cabling:
        message = f"the shape is for {cablings[args.shape]}, and the site is cabled as {site.cabling}"
        raise InputErrors.one(message, where=where, hint=hint)
    return str(name)


def _default(args: argparse.Namespace) -> str:
    from derive.cli.console import project_of

    return project_of(args).settings.default_image
