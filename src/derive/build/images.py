# SPDX-License-Identifier: Apache-2.0
"""Derives an image whole: evaluate, plan, run, name it in the store, and check it when asked.

Edge: the store, through the services below it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from derive.build.check import Difference, check_closure, plan_again
from derive.build.deriving import derive_outputs
from derive.build.execute import Progress
from derive.build.memo import name_image
from derive.build.service import Options, evaluate, executor, preflight
from derive.canonical import Digest
from derive.derivations.model import Derivation, FlatOutput, Platform
from derive.project import Project
from derive.schedule.model import HERE
from derive.store.local import LocalStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedImage:
    """An image's manifest digest and, when it was checked, what came out otherwise."""

    manifest: Digest
    derivation: Digest
    checked: int = 0
    differences: tuple[Difference, ...] = ()


def derive_image(
    project: Project,
    name: str,
    platform: Platform | None,
    store: LocalStore,
    options: Options,
    progress: Progress,
    *,
    check: bool = False,
    but: Collection[Digest] = (),
) -> DerivedImage:
    """Derive an image and keep it as a root; raises what the steps raise.

    ``but`` are ids of derivations that need not be checked, such as those checked with another platform's image.
    """
    target = evaluate(project, f"image:{name}", platform)
    if check:
        preflight_check(target, store, options, but)
    outputs = derive_outputs(target, store, options, progress, project.root, whole=check)
    manifest = _flat(outputs["out"])
    name_image(store, name, target.host, manifest)
    checked, differences = check_target(target, store, options, progress, but) if check else (0, ())
    return DerivedImage(manifest=manifest, derivation=target.id, checked=checked, differences=differences)


def check_target(
    target: Derivation, store: LocalStore, options: Options, progress: Progress, but: Collection[Digest] = ()
) -> tuple[int, tuple[Difference, ...]]:
    """Build every step of a target again, whose closure is present; return how many steps, and every difference."""
    preflight_check(target, store, options, but)
    # Another job count than the first time: what depends on it shows.
    inner_jobs = 2 if options.jobs == 1 else 1
    again = executor(store, _of_check(options), progress, inner_jobs=inner_jobs)
    count, differences = check_closure(target, again, progress.checked, but=but)
    return count, tuple(differences)


def preflight_check(target: Derivation, store: LocalStore, options: Options, but: Collection[Digest] = ()) -> None:
    """Find out first what would stop a check later: it runs every step, whatever the store holds."""
    preflight(plan_again(target, but), store, _of_check(options))


def _of_check(options: Options) -> Options:
    """Return how a check runs: what is only configured is left out, for what came of it is compared with this machine.

    Executors that were named run the second builds, too.
    """
    return options if options.on or options.executor else replace(options, on=(HERE,))


def _flat(output: object) -> Digest:
    assert isinstance(output, FlatOutput)
    return output.digest
