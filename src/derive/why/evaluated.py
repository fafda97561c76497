# SPDX-License-Identifier: Apache-2.0
"""What a project evaluates to, as a store knows it: under which key that is remembered, and what early cutoff tells.

Edge: the store, the digest of the engine's sources.
"""

from __future__ import annotations

from derive.canonical import Digest, digest_document
from derive.derivations.model import Derivation, Output, parse_output
from derive.project import Project
from derive.store.local import LocalStore


def find_cutoffs(store: LocalStore, order: list[Derivation], outputs: dict[Digest, dict[str, str]]) -> None:
    """Add the outputs of steps that were never seen under their id, and whose inputs came out as another's did."""
    from derive.build.plan import resolved_of

    for one in order:
        if one.id in outputs or one.fixed is not None:
            continue
        inputs: dict[str, Output] = {}
        for role, reference in one.inputs.items():
            fixed = reference.derivation.fixed
            text = str(fixed) if fixed is not None else outputs.get(reference.derivation.id, {}).get(reference.output)
            if text is None:
                break
            inputs[role] = parse_output(text)
        else:
            row = store.database.realisation(resolved_of(one, inputs).id)
            if row is not None:
                outputs[one.id] = dict(row.outputs)


def memo_key(project: Project, name: str, kind: str, platform: str | None) -> Digest:
    """Return what the derivation that a project's name means is remembered under."""
    from derive.build.engine import engine_digest

    return digest_document(
        {
            "derive": "evaluated-memo/1",
            "content": project.digest().hex,
            "engine": engine_digest().hex,
            "name": name,
            "kind": kind,
            "platform": platform,
        }
    )
