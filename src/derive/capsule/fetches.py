# SPDX-License-Identifier: Apache-2.0
"""From a release's content back to the steps that fetch its artifacts, and to the artifacts themselves.

Edge: the store, the network, the engine's own source.

What a release takes stands in its facts; where an artifact is served does not, since it decides no byte. So content is
evaluated where something has to be asked for. A fetch is found by what it gives: a step whose id moved with a later
engine serves as well.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from derive.build.plan import Action, Plan, Step
from derive.capsule.inputs import ENGINE, Input
from derive.derivations.model import Derivation, Output, Platform, closure
from derive.errors import Corrupt, DeriveError, Unavailable, UpstreamGone

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.releases.document import Release
    from derive.store.local import LocalStore

_SHOWN = 20


def image_fetches(
    release: Release, files: Mapping[str, bytes], platforms: Iterable[Platform]
) -> dict[Output, Derivation]:
    """Return the fetches of a release's images by what they give; ``files`` are its content, by path.

    Raises:
        InputErrors: when this engine cannot evaluate the content.
    """
    from derive.derivations.evaluate import Evaluator
    from derive.derivations.scope import load_scope
    from derive.project import CONTENT_ROOTS, Project, Settings

    roots = tuple(f"{one}/" for one in CONTENT_ROOTS)
    settings = Settings(default_image=release.default_image, build_platform=release.build_platform)
    content = {path: data for path, data in files.items() if path.startswith(roots)}
    evaluator = Evaluator(load_scope(Project(root=Path(), settings=settings, files=content)))
    targets = [evaluator.image(release.images[platform].name, platform) for platform in platforms]
    return fetches_of(targets)


def engine_fetches(source: Mapping[str, bytes] | None, platforms: Iterable[Platform]) -> dict[Output, Derivation]:
    """Return the fetches of an engine's root by what they give; None is the engine that runs. Raises InputErrors."""
    from derive.engine.derivation import engine_derivations

    return fetches_of(engine_derivations(source, platforms).values())


def fetches_of(targets: Iterable[Derivation]) -> dict[Output, Derivation]:
    """Return every fetch below some derivations by what it gives."""
    return {one.fixed: one for target in targets for one in closure(target) if one.fixed is not None}


def bring(
    store: LocalStore,
    wanted: Iterable[Input],
    fetches: Mapping[Output, Derivation],
    options: Options,
    progress: Progress | None,
    engine: Container[Output] = (),
    title: str = "a capsule",
) -> None:
    """Bring artifacts into a store, from mirrors and archives; all are tried, and what nobody has is said at once.

    ``engine`` is what the engine alone is built from, and no image of the release; ``title`` what it is brought for.

    Raises:
        UpstreamGone, Unavailable, Corrupt: as the fetches, told together.
        HostRefuses: when this machine names no mirror, or there is no room.
    """
    from derive.build.service import executor, preflight

    every = sorted(wanted, key=lambda one: (one.use, one.digest))
    unknown = [one for one in every if one.output not in fetches]
    if unknown:
        shown = [f"missing   {one.use}" for one in unknown[:_SHOWN]]
        more = [f"and {len(unknown) - _SHOWN} more"] if len(unknown) > _SHOWN else []
        raise Unavailable(
            f"{len(unknown)} artifacts are not in the store, and nothing of the release says who serves them",
            detail=[*shown, *more],
            hint="name a capsule or an archive that has them in DERIVE_ARCHIVES"
            + ("; or leave the engine out: --without-engine" if any(one.use.kind == ENGINE for one in unknown) else ""),
        )
    steps = {fetches[one.output].id: fetches[one.output] for one in every}
    if not steps:
        return
    store.protect(steps)
    plan = Plan(
        target=next(iter(steps.values())),
        steps=tuple(Step(derivation=one, action=Action.FETCH, reason="for a capsule") for one in steps.values()),
        title=title,
    )
    preflight(plan, store, options)
    try:
        executor(store, options, progress).run(plan)
    except (UpstreamGone, Corrupt) as error:
        from derive.capsule.gather import absent

        raise _unpacked(error, absent(store, every), fetches, engine) from error


def _unpacked(
    error: DeriveError, missing: Iterable[Input], fetches: Mapping[Output, Derivation], engine: Container[Output]
) -> DeriveError:
    """Return a failure of fetches with the next step of whoever packs: a release's lock moves no more."""
    own = [one for one in missing if one.output in engine and one.output in fetches]
    shown = [f"engine's   {one.use}" for one in own[:_SHOWN]]
    more = [f"and {len(own) - _SHOWN} more of the engine's"] if len(own) > _SHOWN else []
    hint = "name a capsule or an archive that has them in DERIVE_ARCHIVES"
    if own:
        hint = f"{hint}; what is the engine's own may be left out: --without-engine"
    return type(error)(error.message, where=error.where, detail=[*error.detail, *shown, *more], hint=hint)
