# SPDX-License-Identifier: Apache-2.0
"""Builds one step of a release a second time, whatever the store remembers, and writes down what it gave.

Edge: the store, the sandbox. An audit asks this of the engine of a release, so that nobody else need know its store.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from derive.canonical import CanonicalError, Digest, Json, decode, encode
from derive.derivations.model import Derivation, Output, closure, parse_output
from derive.errors import InputErrors
from derive.images.documents import DocumentError, fields, mapping
from derive.outfile import open_output

if TYPE_CHECKING:
    from derive.build.service import Options
    from derive.releases.describe import Question
    from derive.store.local import LocalStore

AGAIN_FILE = "again.json"
_TAG = "release-again/1"


def require_step(question: Question, wanted: Digest) -> tuple[Derivation, Derivation]:
    """Return the image in which a step of a release is, and the step; raises InputErrors for what is none."""
    where, hint = "--again", "facts.json of the release names its derivations"
    for target in question.targets.values():
        for one in closure(target):
            if one.id == wanted and one.fixed is None:
                return target, one
            if one.id == wanted:
                raise InputErrors.one(f"{one.name} is fetched, and not built", where=where, hint=hint)
    raise InputErrors.one(f"no step of the release is {wanted.hex}", where=where, hint=hint)


def build_again(question: Question, wanted: Digest, store: LocalStore, options: Options) -> Mapping[str, Output]:
    """Build a step of a release that was derived once more, and return its outputs by name.

    What the store has, and what it remembers, stays as it is. Raises what the step raises.
    """
    from derive.build.plan import resolved_of
    from derive.build.service import executor, plan_for, realise
    from derive.releases.describe import known_outputs

    target, step = require_step(question, wanted)
    realise(plan_for(target, store, options.root, whole=True), store, options)
    given, _ = known_outputs(closure(target), store)
    inputs = {role: given[one.derivation.id][one.output] for role, one in step.inputs.items()}
    log = f"{step.id.hex}.check.log"
    return executor(store, options).build(step, resolved_of(step, inputs), log, from_nothing=True)


def write_again(folder: Path, wanted: Digest, outputs: Mapping[str, Output]) -> None:
    """Write what a step gave the second time beside the documents of the release; raises as opening a file does."""
    written: dict[str, Json] = {name: str(one) for name, one in outputs.items()}
    with open_output(folder / AGAIN_FILE) as file:
        file.write(encode({"derive": _TAG, "derivation": wanted.hex, "outputs": written}))


def read_again(data: bytes, wanted: Digest) -> Mapping[str, Output]:
    """Read what a step gave the second time; raises DocumentError (a ValueError), also where it is another's."""
    try:
        found = fields(decode(data), tag=_TAG, keys=("derivation", "outputs"))
    except CanonicalError as error:
        raise DocumentError(str(error)) from error
    if found["derivation"] != wanted.hex:
        raise DocumentError(f"of another derivation: {found['derivation']}")
    return {name: parse_output(str(one)) for name, one in mapping(found["outputs"], "outputs").items()}
