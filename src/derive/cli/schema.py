# SPDX-License-Identifier: Apache-2.0
"""Show the options and variables that an image's programs take; read them anew from its sources, and pin them.

Edge: the project, the store, standard streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, wants_json
from derive.cli.running import options_of

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Json
    from derive.project import Project
    from derive.schema.model import Schema

EXAMPLES = """\
  derive schema                        every option and variable of the default image
  derive schema ds41f prefill          those whose lines have this word
  derive schema ds41f NCCL_IB
  derive schema ds41f --check          is what is pinned what the sources say now? Nothing is built
  derive schema ds41f --write          read the sources, and pin what they say
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("terms", nargs="*", metavar="[IMAGE] [WORD]", help="an image, and words to look for")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--write", action="store_true", help="derive the schema and pin it in recipes/")
    group.add_argument("--check", action="store_true", help="say whether the pinned schema is up to date")
    parser.add_argument("--offline", action="store_true", help="fetch nothing, with --write")


def run(args: argparse.Namespace) -> int:
    """Print, check or write."""
    from derive.schema.service import pinned_images, read_pinned
    from derive.words import near

    if args.write:
        return _write(args, project_of(args))
    if args.check:
        return _check(args, project_of(args))
    root = project_root(args)
    from derive.project import default_image

    pinned = pinned_images(root)
    image, words = _asked(args.terms, pinned, default_image(root))
    if words == args.terms and words and (root / "images" / f"{words[0]}.toml").is_file():
        image, words = words[0], words[1:]
    schema = read_pinned(root, image)
    from derive.schema.table import tables

    found = tables(schema, words)
    if wants_json(args):
        answer_record("schema", image, _body(schema, words))
    elif found:
        answer(found)
    if not found:
        note(f"no option or variable of {image} has all of these words: {' '.join(words)}")
        if words == args.terms and len(words) == 1:
            hint = near(words[0], pinned) or f"pinned: {', '.join(pinned)}"
            note(f"nor is a schema pinned for an image of that name: {hint}")
    return 0 if found else 1


def _asked(words: list[str], images: list[str], default: str) -> tuple[str, list[str]]:
    """Part the image from the words: the first word is one if an image has that name."""
    return (words[0], words[1:]) if words and words[0] in images else (default, words)


def _image(args: argparse.Namespace, project: Project) -> str:
    return str(args.terms[0]) if args.terms else project.settings.default_image


def _body(schema: Schema, words: list[str]) -> dict[str, Json]:
    from dataclasses import asdict

    from derive.schema.table import matching

    return {
        "derivation": schema.derivation,
        "options": {one.name: asdict(one) for one in matching(schema.options.values(), words)},
        "variables": {one.name: asdict(one) for one in matching(schema.variables.values(), words)},
    }


def _write(args: argparse.Namespace, project: Project) -> int:
    from derive.cli.progress import progress_for_stderr
    from derive.schema.pin import file_of
    from derive.schema.service import read_pinned, write_pinned
    from derive.store.local import LocalStore

    image = _image(args, project)
    with LocalStore(store_folder(args)) as store:
        options = options_of(args)
        has_changed = write_pinned(project, image, store, options, progress_for_stderr())
    schema = read_pinned(project.root, image)
    note(f"{file_of(image)}: {'written' if has_changed else 'as it was'}")
    if wants_json(args):
        answer_record("schema-pin", image, {"derivation": schema.derivation, "changed": has_changed})
    else:
        answer(schema.derivation)
    return 0


def _check(args: argparse.Namespace, project: Project) -> int:
    from derive.schema.pin import stale
    from derive.schema.service import read_pinned

    image = _image(args, project)
    schema = read_pinned(project.root, image)
    moved = stale(project, schema)
    if wants_json(args):
        answer_record("schema-check", image, {"derivation": schema.derivation, "moved": list(moved)})
    else:
        answer("\n".join(f"{name} moved" for name in moved) or "up to date")
    if moved:
        note(f"hint: derive schema {image} --write")
    return 1 if moved else 0
