# SPDX-License-Identifier: Apache-2.0
"""Which patches change no output: the project is derived again without each, really, and the outputs compared.

Edge: the store, the network, sandboxes. The project's folder is not touched: the patch is left out in memory alone.

Early cutoff makes it cheap: where the patched tree, or what is built from it, comes out the same, nothing more runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from derive.build.service import evaluate, plan_for, realise
from derive.derivations.model import closure
from derive.errors import BuildFailed, InputErrors
from derive.patches.inspect import uses_of
from derive.patches.overview import load_all
from derive.patches.report import Counts, Dead, Needed, Without

if TYPE_CHECKING:
    from derive.canonical import Digest
    from derive.derivations.model import Derivation, Output, Platform
    from derive.patches.origins import Shop
    from derive.patches.series import Series
    from derive.project import Project


def outputs_without(
    shop: Shop, upstream: str, name: str, *, platform: Platform | None = None, only: Collection[str] = ()
) -> Iterator[tuple[str, Without]]:
    """Yield, for each patch of a series or those in ``only``, what becomes of a derivation or image without it.

    Of an image the layers count: its config carries the derivation's id, which moves with any patch.

    Raises:
        InputErrors: what the name means does not use the series, or a patch is not in it.
        DeriveError: as :func:`derive.build.service.realise`, when it cannot be derived with all patches.
    """
    project = shop.project
    series = load_all(project, upstream)[upstream].series
    _require_patches(series, upstream, only)
    target = evaluate(project, name, platform)
    _require_use(project, target, upstream, name)
    before = _outputs(shop, target)
    known = frozenset(one.id for one in closure(target))
    for patch in series.names:
        if only and patch not in only:
            continue
        mark = partial(_marked, known=known, mark=f"without {patch}")
        try:
            after = _outputs(shop, evaluate(_leave_out(project, upstream, series, patch), name, platform), mark)
        except (InputErrors, BuildFailed) as error:
            first = error.problems()[0]
            yield patch, Needed(f"{first.where}: {first.message}" if first.where else first.message)
            continue
        moved = tuple(sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key)))
        yield patch, Counts(moved) if moved else Dead()


def _require_patches(series: Series, upstream: str, names: Collection[str]) -> None:
    from derive.derivations.scope import absent

    where = f"patches/{upstream}/series"
    problems = [absent(where, "patch", name, series.names) for name in names if name not in series.names]
    if problems:
        raise InputErrors(problems)


def _require_use(project: Project, target: Derivation, upstream: str, name: str) -> None:
    names = {use.step for use in uses_of(project, upstream)}
    if not any(one.builder == "patch" and one.name in names for one in closure(target)):
        raise InputErrors.one(f"{name} is not made with patches/{upstream}", where="--outputs")


def _leave_out(project: Project, upstream: str, series: Series, patch: str) -> Project:
    """Return the project as if a patch were in neither the folder nor the series."""
    folder = f"patches/{upstream}"
    files = {path: data for path, data in project.files.items() if path != f"{folder}/{patch}"}
    names = [name for name in series.names if name != patch]
    files[f"{folder}/series"] = "".join(f"{row}\n" for row in (f"# licence: {series.licence}", *names)).encode()
    return replace(project, files=files)


def _outputs(
    shop: Shop, target: Derivation, mark: Callable[[Derivation], Derivation] = lambda one: one
) -> Mapping[str, Output]:
    whole = {target.id: target}
    if target.builder == "image":
        whole = {one.derivation.id: one.derivation for one in target.inputs.values()}
    found: dict[str, Output] = {}
    for one in whole.values():
        outputs = realise(plan_for(mark(one), shop.store, shop.options.root), shop.store, shop.options, shop.progress())
        found.update({f"{one.name}: {output}": value for output, value in outputs.items()})
    return found


def _marked(target: Derivation, known: Collection[Digest], mark: str) -> Derivation:
    """Return the same derivations under other names, but for those known.

    A name is in no id. Whoever asks later why something was built must not be told of a build that was a question.
    """
    made: dict[Digest, Derivation] = {}
    for one in closure(target):
        inputs = {role: replace(item, derivation=made[item.derivation.id]) for role, item in one.inputs.items()}
        made[one.id] = one if one.id in known else replace(one, name=f"{one.name} {mark}", inputs=inputs)
    return made[target.id]
