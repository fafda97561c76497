# SPDX-License-Identifier: Apache-2.0
"""Checks the rows of a store's database against their own hashes and forms.

Edge: the store's database. Reads alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from derive.canonical import Digest, sha256
from derive.derivations.model import parse_output
from derive.store.findings import Finding, Kind
from derive.store.local import LocalStore


def check_rows(store: LocalStore) -> tuple[tuple[Finding, ...], int]:
    """Return what is wrong with rows, and how many derivations there are."""
    findings, count = _derivations(store)
    findings += _realisations(store)
    return tuple(findings), count


def _derivations(store: LocalStore) -> tuple[list[Finding], int]:
    findings = []
    count = 0
    with store.database.cursor() as cursor:
        for key, name, document in cursor.execute("SELECT id, name, document FROM derivations ORDER BY id"):
            count += 1
            found = sha256(document.encode("utf-8", "surrogatepass"))
            if found.hex != key:
                what = f"{name}: its document is that of {found.short}"
                lost = "what is remembered of this step; it is found or built again"
                findings.append(Finding(kind=Kind.DERIVATION, name=key, what=what, lost=lost))
    return findings, count


def _realisations(store: LocalStore) -> Iterator[Finding]:
    with store.database.cursor() as cursor:
        rows = cursor.execute("SELECT resolved, outputs FROM realisations ORDER BY resolved").fetchall()
    for resolved, outputs in rows:
        try:
            Digest(resolved)
            for text in json.loads(outputs).values():
                parse_output(text)
        except (ValueError, AttributeError, TypeError):
            what = "its outputs cannot be read"
            lost = "what this step gave; it is built again"
            yield Finding(kind=Kind.REALISATION, name=resolved, what=what, lost=lost)
