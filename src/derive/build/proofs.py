# SPDX-License-Identifier: Apache-2.0
"""Proves again, offline, that every tree that was fetched from git is its commit's.

Edge: the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, TreeOutput, parse_output
from derive.errors import Corrupt
from derive.git.proof import check_proof
from derive.store.findings import Finding, Kind
from derive.store.graph import of_builder, outputs
from derive.store.local import LocalStore


def check_proofs(store: LocalStore) -> tuple[int, tuple[Finding, ...]]:
    """Return how many trees were proved, and those whose proof fails; what is not in the store is passed over."""
    fetches = of_builder(store.database, "fetch-git")
    given = outputs(store.database, fetches)
    proved = 0
    found: list[Finding] = []
    for fetch in fetches:
        gave = {name: parse_output(text) for name, text in given.get(fetch.id, {}).items()}
        tree, proof = gave.get("out"), gave.get("proof")
        if not isinstance(tree, TreeOutput) or not isinstance(proof, FlatOutput):
            continue
        if not store.has_tree(tree.digest) or not store.has_blob(proof.digest):
            continue
        arguments = fetch.document["arguments"]
        assert isinstance(arguments, Mapping)
        commit = str(arguments["commit"])
        try:
            check_proof(store, store.listing(tree.digest), b"".join(store.read_blob(proof.digest)), commit)
            proved += 1
        except Corrupt as error:
            found.append(_unproved(tree.digest, fetch.name, commit, error))
    return proved, tuple(found)


def _unproved(tree: Digest, name: str, commit: str, error: Corrupt) -> Finding:
    what = f"not proved to be commit {commit[:12]}: {error.message}"
    return Finding(kind=Kind.PROOF, name=tree.hex, what=what, lost=name)
