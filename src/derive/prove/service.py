# SPDX-License-Identifier: Apache-2.0
"""Proves one node's files: renders them, and holds them against a rendered folder, or against other processes'.

Edge: the project, the site's file, the store, other processes, folders that are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from derive.canonical import CanonicalError, Digest, Json, decode
from derive.errors import InputErrors, expected_got
from derive.fabric.places import find_site
from derive.prove.again import WAYS, render_again
from derive.prove.compare import differences, not_runnable
from derive.prove.judge import Verdict, moved_inputs
from derive.prove.statement import Statement, statement
from derive.prove.written import Written, read_files
from derive.render.bundle import MANIFEST, MANIFEST_TAG
from derive.render.inputs import Chosen, Inputs
from derive.render.service import Rendered, render


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a node's files follow from, whether they do, and what a person is told beside it."""

    statement: Statement
    verdict: Verdict
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be proved: a node, what a person named, and the rendered folder where one is held against.

    ``image`` is the digest that was named, None where the folder's or the project's is meant.
    """

    node: str
    chosen: Chosen
    image: Digest | None = None
    folder: Path | None = None


def prove(
    root: Path,
    question: Question,
    environ: Mapping[str, str],
    image: Callable[[Inputs], Digest],
    usual: str,
) -> Proof:
    """Prove a node's files; ``image`` says which one the project makes now, ``usual`` which recipe is meant.

    Raises:
        InputErrors: when anything is wrong with what is rendered, there is no such node, or the folder is none.
        Missing: when the image is not derived yet.
    """
    written = None if question.folder is None else read_files(question.folder)
    if question.folder is not None and written is not None:
        question = _as_written(question, written.files, question.folder)
    named = question.image
    rendered = render(root, question.chosen, environ, image if named is None else lambda _: named, usual)
    found, inputs = rendered.bundle, rendered.inputs
    names = [launch.node for launch in found.launches]
    if question.node not in names:
        hint = f"there is {', '.join(names)}"
        raise InputErrors.one(f"no node is called {question.node!r}", where=f"{inputs.site_file}: nodes", hint=hint)
    made = statement(found, question.node, inputs.recipe, inputs.site_file, inputs.files)
    if question.folder is None or written is None:
        verdict = _against_processes(root, question, environ, rendered)
    else:
        verdict = _against_folder(question, question.folder, written, rendered)
        verdict = replace(verdict, moved=tuple(moved_inputs(made, written.files[MANIFEST], found.files[MANIFEST])))
    return Proof(statement=made, verdict=verdict, notes=(*inputs.notes, *found.judgement.reasons()))


def _as_written(question: Question, written: Mapping[str, bytes], folder: Path) -> Question:
    """Take from a folder's manifest what a person did not name."""
    where = str(folder / MANIFEST)
    manifest = _manifest(written.get(MANIFEST), where)
    if not any(path.startswith(f"{question.node}/") for path in written):
        nodes = sorted({path.partition("/")[0] for path in written if "/" in path})
        hint = f"there is {', '.join(nodes) or 'none'}"
        raise InputErrors.one(f"no files of a node {question.node!r}", where=str(folder), hint=hint)
    chosen = question.chosen
    digest = question.image
    if digest is None:
        try:
            digest = Digest.parse(str(manifest.get("image")))
        except ValueError:
            detail = expected_got("sha256:<64 hex>", manifest.get("image"))
            raise InputErrors.one("not a digest", where=f"{where}: image", detail=detail) from None
    recipe, shape = (value if isinstance(value := manifest.get(key), str) else None for key in ("recipe", "shape"))
    return replace(
        question,
        image=digest,
        chosen=replace(chosen, recipe=chosen.recipe or recipe, shape=chosen.shape or shape),
    )


def _manifest(data: bytes | None, where: str) -> Mapping[str, Json]:
    try:
        document = None if data is None else decode(data)
    except CanonicalError as error:
        raise InputErrors.one(str(error), where=where) from error
    if not isinstance(document, Mapping) or document.get("derive") != MANIFEST_TAG:
        hint = "render one: derive render --out FOLDER"
        raise InputErrors.one("not the manifest of a rendered folder", where=where, hint=hint)
    return document


def _against_folder(question: Question, folder: Path, written: Written, rendered: Rendered) -> Verdict:
    expected, got = (_of_node(files, question.node) for files in (written.files, rendered.bundle.files))
    differing = [*differences(expected, got), *not_runnable(got, written.modes)]
    found = tuple(sorted(differing, key=lambda one: one.path))
    labels = ("in the folder", "rendered now")
    against = f"as in {folder}"
    return Verdict(against=against, labels=labels, folder=True, files=len(expected), differing=found)


def _against_processes(root: Path, question: Question, environ: Mapping[str, str], rendered: Rendered) -> Verdict:
    resolved, site = rendered.bundle.resolved, find_site(environ, question.chosen.site)
    asked = {
        "root": str(root.absolute()),
        "recipe": resolved.recipe,
        "shape": resolved.shape,
        "image": str(rendered.bundle.image),
        "site": None if site is None else str(site.absolute()),
    }
    here = _of_node(rendered.bundle.files, question.node)
    found = [one for files in render_again(asked) for one in differences(here, _of_node(files, question.node))]
    against = f"rendered here and in two processes of other {WAYS}"
    return Verdict(against=against, files=len(here), differing=tuple(dict.fromkeys(found)))


def _of_node(files: Mapping[str, bytes], node: str) -> dict[str, bytes]:
    """Return a node's files, and those of the launch as a whole."""
    return {path: data for path, data in files.items() if "/" not in path or path.startswith(f"{node}/")}
