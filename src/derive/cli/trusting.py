# SPDX-License-Identifier: Apache-2.0
"""Whose signatures count here: the policy of the project that the arguments, or the working folder, name.

Edge: the project's pyproject.toml, and its records of keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from derive.cli.console import project_root
from derive.errors import InputErrors

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from derive.trust.history import History
    from derive.trust.policy import Policy


def policy_here(args: argparse.Namespace) -> Policy | None:
    """Return the project's policy, or None where it has none, or no project is here."""
    from derive.project import load_policy

    root = _root(args)
    return None if root is None else load_policy(root)


def history_here(args: argparse.Namespace) -> History:
    """Return what became of the project's keys; that of no key where no project is here. Raises as load_history."""
    from derive.trust.folder import load_history
    from derive.trust.history import History

    root = _root(args)
    return History() if root is None else load_history(root)


def _root(args: argparse.Namespace) -> Path | None:
    """Return the project, None where none is here; one that was named and is not there is an error."""
    try:
        return project_root(args)
    except InputErrors:
        if getattr(args, "project", None) is not None:
            raise
        return None


def require_keys_held(args: argparse.Namespace) -> None:
    """Refuse to judge by keys whose events are not as they were written or committed: a revocation may be gone.

    Raises:
        NotHeld: with every fault. Without a project there are no events; that is said where they are needed.
    """
    from derive.cli.console import note
    from derive.records.held import keys_held
    from derive.trust.history import FOLDER

    try:
        root = project_root(args)
    except InputErrors:
        return
    refused = keys_held(root)
    if refused is not None:
        note(f"{FOLDER}/ is not held against git: {refused}")


def require_policy(args: argparse.Namespace, otherwise: str) -> Policy:
    """Return the project's policy; raises InputErrors, saying what may be done otherwise, where nobody is trusted."""
    from derive.project import load_policy

    try:
        root = project_root(args)
    except InputErrors as error:
        if getattr(args, "project", None) is not None:
            raise
        hint = f"name the project whose keys count with --project, or {otherwise}"
        raise InputErrors([replace(problem, hint=hint) for problem in error.problems()]) from error
    policy = load_policy(root)
    if policy is None or not policy.keys:
        raise InputErrors.one(
            "the project trusts no key",
            where=f"{root / 'pyproject.toml'}: tool.derive.trust.keys",
            hint=f"write there whose signatures count, as derive key show prints a key; or {otherwise}",
        )
    return policy
