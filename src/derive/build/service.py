# SPDX-License-Identifier: Apache-2.0
"""What the commands call: from a project and a name to a plan, to outputs, to a checked image.

Edge: puts the store, the network and the sandbox together. Heavy modules are imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from derive.build.execute import Executor, Progress, Silent, free_bytes, store_knowledge
from derive.build.plan import Action, Plan, Step, make_plan
from derive.build.substituting import Came, Substitute, with_others
from derive.cache.standing import standing_in
from derive.derivations.model import Derivation, Output, Platform, closure
from derive.errors import HostRefuses, InputErrors, Unavailable
from derive.operands import Named
from derive.project import Project
from derive.store.local import LocalStore

if TYPE_CHECKING:
    from derive.build.context import StepExecutor
    from derive.build.placing import Placing
    from derive.build.prices import Forecast
    from derive.schedule.choose import Chosen

_ELSEWHERE = frozenset({"script", "kernel"})
_SANDBOXED = frozenset({"bytecode"}) | _ELSEWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to run: none of it decides a byte. ``root`` is the project whose trust says what counts of what came.

    ``no_cache``: nothing is taken from, nor compared with, other machines, and what came from them before is built.
    ``executor`` says what runs scripts and compilers: ``buildkit``, or ``buildkit=BUILDER`` with one or more names of
    builders between commas; empty for this machine's own sandbox. One that has a guard in the user's settings is used
    under it. ``on`` are names of executors that steps are placed on; none for all that the user has configured.
    """

    jobs: int
    root: Path | None = None
    offline: bool = False
    keep_failed: bool = False
    no_cache: bool = False
    executor: str = ""
    on: tuple[str, ...] = ()


def evaluate(project: Project, name: str, platform: Platform | None) -> Derivation:
    """Return what a name means: the last step of an image, or a derivation; ``image:``, ``drv:``, ``@platform`` count.

    Without a platform, an image is for the one that its file names, a derivation for the build platform; a unit of a
    kernel is what is compiled for its GPU, and with a platform what a host loads.

    Raises:
        InputErrors: everything wrong with the project, or with that name.
    """
    from derive.derivations.evaluate import LIST, Evaluator
    from derive.derivations.scope import absent, load_scope

    scope = load_scope(project)
    wanted = named(name, platform)
    name, platform = wanted.name, wanted.platform
    if "/" in name and wanted.kind != "image":
        return Evaluator(scope).kernel_unit(name, platform)
    is_image, is_declared = name in scope.images, name in scope.declared
    if wanted.kind != "any":
        is_image, is_declared = wanted.kind == "image", wanted.kind == "drv"
    if is_image and is_declared:
        raise InputErrors.one(f"{name!r} is an image and a derivation", hint=f"say image:{name} or drv:{name}")
    if is_image:
        return Evaluator(scope).image(name, platform)
    if is_declared:
        return Evaluator(scope).derivation(name, platform or project.settings.build_platform)
    raise InputErrors([absent("", "image or derivation", name, {*scope.images, *scope.declared}, LIST)])


def named(text: str, platform: Platform | None) -> Named:
    """Read an operand that must be a name of the project; raises InputErrors for every other."""
    from derive.operands import parse_operand

    operand = parse_operand(text, platform)
    if isinstance(operand, Named):
        return operand
    hint = "name an image or a derivation of the project: derive show lists them"
    raise InputErrors.one(f"{text!r} is no name, and only what the project declares can be derived", hint=hint)


def plan_for(
    target: Derivation,
    store: LocalStore,
    root: Path | None,
    *,
    whole: bool = False,
    own: bool = False,
    to_run: bool = True,
) -> Plan:
    """Plan a target against a store; what a plan that is ``to_run`` finds there is kept from being collected.

    What came from caches counts as far as the project at ``root`` believes those who vouched for it. In a plan of the
    machine's ``own``, as in one that is ``whole``, it is built here.
    """
    if to_run:
        store.protect(derivation.id for derivation in closure(target))
    came = Came.of(store, standing_in(root), own=whole or own)
    return make_plan(target, with_others(store_knowledge(store), came), whole=whole, own=own)


def realise(plan: Plan, store: LocalStore, options: Options, progress: Progress | None = None) -> Mapping[str, Output]:
    """Run a plan.

    Raises:
        HostRefuses: before anything starts, when this machine cannot: no mirror, no sandbox, no space.
        Unavailable: offline, and something would have to be fetched.
        BuildFailed, UpstreamGone, Corrupt, InputErrors: from the steps.
    """
    preflight(plan, store, options)
    return executor(store, options, progress).run(plan)


def executor(
    store: LocalStore,
    options: Options,
    progress: Progress | None = None,
    *,
    inner_jobs: int | None = None,
    substitute: Substitute | None = None,
) -> Executor:
    """Return the executor with every builder; ``substitute`` has what other machines built."""
    from derive.build.builders.table import BUILDERS
    from derive.build.fetching import StoreFetch
    from derive.net.progress import NotesOnly
    from derive.sandbox.probe import find_sandbox

    note = progress.note if progress is not None else None
    chosen = _chosen(options)
    return Executor(
        store=store,
        builders=BUILDERS,
        fetch=StoreFetch(NotesOnly(progress.note) if progress is not None else None, offline=options.offline),
        sandbox=cache(find_sandbox),
        jobs=options.jobs,
        inner_jobs=inner_jobs or options.jobs,
        progress=progress or Silent(),
        keep_failed=options.keep_failed,
        substitute=substitute,
        judge=standing_in(options.root) if substitute is None else substitute.standing,
        executor=step_executor(options.executor, note) if chosen is None else None,
        placer=_placer(chosen, options, store, note),
    )


def _chosen(options: Options) -> Chosen | None:
    """Return the executors that steps are placed on; None where none is configured."""
    import os

    from derive.schedule.choose import choose

    return choose(options.on, os.environ, executor=options.executor)


def _placer(
    chosen: Chosen | None, options: Options, store: LocalStore, note: Callable[[str], None] | None
) -> Callable[[Plan, Forecast], Placing] | None:
    """Return what places steps on executors; None where none is configured."""
    from derive.schedule.choose import placer

    return None if chosen is None else placer(chosen, store, options.jobs, note or (lambda _: None))


def step_executor(text: str, note: Callable[[str], None] | None = None) -> StepExecutor | None:
    """Return what runs scripts and compilers elsewhere, None where the text is empty; raises InputErrors."""
    if not text:
        return None
    from derive.buildkit.choose import chosen_builders
    from derive.buildkit.run import BuildKitExecutor

    return BuildKitExecutor(builders=chosen_builders(text), note=note or (lambda _: None))


def _not_archived(fetches: Sequence[Step], store: LocalStore) -> Sequence[Derivation]:
    """Return the fetches that no folder of this machine can serve: being offline makes them impossible."""
    from derive.build.fetching import StoreFetch

    with StoreFetch(offline=True) as fetch:
        return fetch.not_archived(store, [step.derivation for step in fetches])


def preflight(plan: Plan, store: LocalStore, options: Options) -> None:
    """Find out first what would stop the plan later."""
    fetches = plan.of(Action.FETCH)
    absent = _not_archived(fetches, store) if fetches and options.offline else ()
    if absent:
        names = sorted(derivation.name for derivation in absent)
        shown = [f"missing   {name}" for name in names[:10]]
        if len(names) > len(shown):
            shown.append(f"and {len(names) - len(shown)} more")
        raise Unavailable(
            f"offline, and {len(names)} artifacts are not in the store",
            detail=shown,
            hint="run once without --offline",
        )
    kinds = {step.derivation.builder for step in fetches}
    if kinds & {"fetch-deb", "fetch-source"} and not options.offline:
        from derive.lock.mirrors import SystemMirrors

        mirrors = SystemMirrors()
        if not mirrors.archives():
            mirrors.debian()
    builds = plan.of(Action.BUILD)
    sandboxed = {step.derivation.builder for step in builds} & _SANDBOXED
    chosen = _chosen(options) if builds else None
    runs_here = not options.executor and (chosen is None or chosen.here)
    if sandboxed - (frozenset() if runs_here else _ELSEWHERE):
        from derive.sandbox.probe import find_sandbox

        find_sandbox()
    if chosen is not None:
        from derive.schedule.guards import require_hosts

        require_hosts(builds, chosen)
    if sandboxed & _ELSEWHERE and options.executor:
        from derive.buildkit.choose import require_builders
        from derive.schedule.graph import can_go_elsewhere

        derivations = (step.derivation for step in builds)
        require_builders(options.executor, {one.build for one in derivations if can_go_elsewhere(one)})
    free = free_bytes(store)
    # What is taken from caches is not counted: its size is a signer's word, and what does not fit is built.
    if plan.fetch_bytes > free:
        raise HostRefuses(
            f"no space left in the store {store.root}",
            detail=[f"to fetch  {plan.fetch_bytes >> 20} MiB", f"free      {free >> 20} MiB"],
            hint="free some space, or name a store on a larger disk with --store",
        )
