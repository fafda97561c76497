# SPDX-License-Identifier: Apache-2.0
"""Say what a node's launch files follow from, and render them again: the same bytes, or the first that differs.

Edge: the project, the site's file, the store, other processes of this program, standard streams.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from derive.cli.console import answer, answer_record, note, project_of, project_root, store_folder, table, wants_json
from derive.cli.options import image_digest, something
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse

    from derive.canonical import Digest
    from derive.prove.service import Proof, Question
    from derive.render.inputs import Inputs

EXAMPLES = """\
  derive prove dgx1                    rendered here and in two unlike processes: the same bytes
  derive prove dgx1 --bundle launch    the files of a rendered folder follow from what is written now
  derive prove dgx1 --release r7       the release's content gives these files, and its shape bundle
  derive prove dgx1 --shape tp3-triangle --image sha256:<hex> --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("node", type=something, metavar="NODE", help="the node whose files are proved")
    parser.add_argument("--recipe", type=something, metavar="NAME", help="default: as derive render has it")
    parser.add_argument("--shape", type=something, metavar="NAME", help="default: as derive render has it")
    parser.add_argument(
        "--image", type=image_digest, metavar="DIGEST", help="all 64 digits (default: what the project makes now)"
    )
    parser.add_argument(
        "--release", type=something, metavar="NAME", help="from this release's content and image, not the working tree"
    )
    parser.add_argument("--site", type=something, metavar="FILE", help="the site's file (default: $DERIVE_SITE, ...)")
    parser.add_argument(
        "--bundle", type=something, metavar="DIR", help="a rendered folder, which says recipe, shape and image"
    )


def run(args: argparse.Namespace) -> int:
    """Render, compare, answer; exit 1 when a byte differs."""
    from derive.project import default_image
    from derive.prove.service import Question, prove
    from derive.render.inputs import Chosen

    question = Question(
        node=args.node,
        chosen=Chosen(recipe=args.recipe, shape=args.shape, site=args.site),
        image=args.image,
        folder=None if args.bundle is None else Path(args.bundle),
    )
    root = project_root(args)
    if args.release is not None:
        return _answer(args, _released(args, root, question))
    return _answer(args, prove(root, question, os.environ, lambda inputs: _image(args, inputs), default_image(root)))


def _released(args: argparse.Namespace, root: Path, question: Question) -> Proof:
    """Prove from a release: its content and image, and its shape bundle must come out."""
    from derive.prove.service import prove
    from derive.render.released import placed, released_content

    if args.image is not None:
        raise InputErrors.one("--image and --release", hint="a release says which image: leave --image out")
    with released_content(root, args.release, store_folder(args)) as content:
        chosen = content.chosen(question.chosen)
        shape, image = placed(content, chosen, os.environ)
        asked = replace(question, chosen=replace(chosen, shape=shape), image=image)
        proof = prove(content.root, asked, os.environ, lambda _: image, content.release.recipe)
        content.require_bundle(shape, str(proof.statement.shape_digest))
    return proof


def _answer(args: argparse.Namespace, proof: Proof) -> int:
    from derive.prove.judge import lines, verdict_body
    from derive.prove.statement import rows

    if wants_json(args):
        answer_record("prove", args.node, {**proof.statement.document(), "proof": verdict_body(proof.verdict)})
    else:
        answer(f"{table(rows(proof.statement))}\n\n" + "\n".join(lines(proof.verdict)))
    for text in proof.notes:
        note(f"note: {text}")
    return 0 if proof.verdict.same else 1


def _image(args: argparse.Namespace, inputs: Inputs) -> Digest:
    from derive.render.service import derived_image

    return derived_image(inputs, lambda: project_of(args), store_folder(args))
