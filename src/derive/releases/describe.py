# SPDX-License-Identifier: Apache-2.0
"""From a project and a recipe to a release and its facts: what is not in the store is derived first.

Edge: the store, the project's files, the engine's own source; the network and the sandbox where something is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from derive import __version__
from derive.canonical import Digest, Json, decode
from derive.derivations.model import Derivation, FlatOutput, Output, Platform, closure
from derive.errors import CheckFailed, InputErrors, Missing
from derive.project import LAUNCH_ROOTS, Project, read_roots
from derive.releases import rows
from derive.releases.document import Release, ReleasedEngine, ReleasedImage
from derive.releases.facts import EngineFacts, Facts, ImageFacts
from derive.releases.shapes import (
    Served,
    content_hashes,
    lock_hashes,
    read_served,
    released_shapes,
    require_platforms,
)

if TYPE_CHECKING:
    from derive.build.execute import Progress
    from derive.build.service import Options
    from derive.errors import Problem
    from derive.store.local import LocalStore

ENGINE_PLATFORMS: tuple[Platform, ...] = ("linux/amd64", "linux/arm64")
"""The platforms whose engine a release names, whatever its images are for: an auditor may have any machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be released: a recipe with its shapes, the derivation of its image for each platform, all files."""

    project: Project
    served: Served
    targets: Mapping[Platform, Derivation]
    files: Mapping[str, bytes]


def question_of(project: Project, recipe: str, platforms: Sequence[Platform] = (), *, partly: bool = False) -> Question:
    """Read and judge what is to be released; without platforms, for those that the image's file declares.

    ``partly``: as far as the platforms go, without the shapes that run on others.

    Raises:
        InputErrors: everything that is wrong with the project, its recipes, and the choice of platforms.
    """
    from derive.derivations.evaluate import Evaluator
    from derive.derivations.scope import load_scope

    files = all_files(project)
    served = read_served(files, recipe)
    _require_renderable(served, files)
    scope = load_scope(project)
    declared = scope.images[served.recipe.image].platforms
    chosen = tuple(sorted(set(platforms or declared)))
    require_platforms(served, chosen, declared, partly=partly)
    targets = {one: Evaluator(scope).image(served.recipe.image, one) for one in chosen}
    for target in targets.values():
        _require_plain(target)
    return Question(project=project, served=served, targets=targets, files=files)


def describe(
    project: Project,
    recipe: str,
    platforms: Sequence[Platform],
    store: LocalStore,
    options: Options,
    progress: Progress | None = None,
) -> tuple[Release, Facts]:
    """Return a release as far as some platforms go; raises as :func:`question_of` does, and what the steps raise."""
    return answer(question_of(project, recipe, platforms, partly=True), store, options, progress)


def answer(
    question: Question, store: LocalStore, options: Options, progress: Progress | None = None
) -> tuple[Release, Facts]:
    """Derive the images of a release where they are not there, and describe it; raises what the steps raise."""
    images: dict[Platform, ReleasedImage] = {}
    facts: dict[Platform, ImageFacts] = {}
    steps: list[Derivation] = []
    given: dict[Digest, Mapping[str, Output]] = {}
    for platform, target in question.targets.items():
        outputs = _derived(target, store, options, progress)
        order = closure(target)
        steps += order
        given |= outputs
        manifest = outputs[target.id]["out"].digest
        images[platform] = ReleasedImage(name=target.name, digest=manifest, derivation=target.id)
        facts[platform] = _image_facts(target, order, outputs, store)
    engine, engine_facts = _engine()
    release = _release(question, images, engine)
    return release, Facts(
        release=release.digest,
        images=facts,
        upstreams=rows.upstreams(steps, given),
        kernels=rows.kernels(steps, given),
        engine=engine_facts,
    )


def foreseen(question: Question, digests: Mapping[Platform, Digest]) -> Release:
    """Return the release that comes of a question if its images have these digests; nothing is derived.

    For a platform without a digest its derivation's id stands: the release is then another than any that is known.
    """
    images = {
        platform: ReleasedImage(name=target.name, digest=digests.get(platform, target.id), derivation=target.id)
        for platform, target in question.targets.items()
    }
    return _release(question, images, _engine()[0])


def all_files(project: Project) -> dict[str, bytes]:
    """Return every file of a project that decides an image or launch files; raises InputErrors for what is none."""
    problems: list[Problem] = []
    more = read_roots(project.root, LAUNCH_ROOTS, problems)
    if problems:
        raise InputErrors(problems)
    return dict(sorted({**more, **project.files}.items()))


def _release(question: Question, images: Mapping[Platform, ReleasedImage], engine: ReleasedEngine) -> Release:
    served, settings = question.served, question.project.settings
    return Release(
        recipe=served.recipe.name,
        recipe_digest=served.recipe.digest(),
        images=images,
        build_platform=settings.build_platform,
        default_image=settings.default_image,
        lock=lock_hashes(question.files),
        content=content_hashes(question.files),
        recipes=served.digests,
        model=served.model(),
        shapes=released_shapes(served, images, question.files),
        engine=engine,
    )


def _require_renderable(served: Served, files: Mapping[str, bytes]) -> None:
    """Refuse what could not be rendered later: options that the image's programs do not take, faults in templates."""
    from derive.recipes.deployable import awaited
    from derive.render.inputs import unknown
    from derive.render.templates import template_problems

    problems = [*template_problems(files)]
    for judged in served.shapes.values():
        unknown(judged.resolved, files, awaited(judged.resolved, judged.judgement.missing), problems)
    if problems:
        raise InputErrors(problems)


def _require_plain(target: Derivation) -> None:
    """Refuse an image that work trees are laid over: nobody else could derive it."""
    overlays = [one.name for one in closure(target) if one.builder == "fetch-work-tree"]
    if overlays:
        detail = [f"over it   {name}" for name in overlays]
        hint = "make patches of what was tried: derive patches refresh"
        raise InputErrors.one(f"the image {target.name} has work trees laid over it", detail=detail, hint=hint)


def _derived(
    target: Derivation, store: LocalStore, options: Options, progress: Progress | None
) -> dict[Digest, Mapping[str, Output]]:
    """Derive an image, and return what each derivation of its closure gave."""
    from derive.build.memo import name_image
    from derive.build.service import plan_for, realise

    manifest = realise(plan_for(target, store, options.root), store, options, progress)["out"]
    assert isinstance(manifest, FlatOutput)
    name_image(store, target.name, target.host, manifest.digest)
    order = closure(target)
    outputs, unknown = known_outputs(order, store)
    if unknown:
        # Its image came from elsewhere, or an earlier engine made it otherwise: the rest is built once here.
        realise(plan_for(target, store, options.root, whole=True), store, options, progress)
        outputs, unknown = known_outputs(order, store)
    if unknown:
        raise Missing(f"nobody knows what {unknown[0].name} gave", hint="derive store verify")
    if outputs[target.id]["out"] != manifest:
        detail = [f"named     {manifest}", f"of inputs {outputs[target.id]['out']}"]
        hint = f"see which step differs: derive image {target.name} --check"
        raise CheckFailed(f"the store has two images of {target.name}", detail=detail, hint=hint)
    return outputs


def known_outputs(
    order: Iterable[Derivation], store: LocalStore
) -> tuple[dict[Digest, Mapping[str, Output]], list[Derivation]]:
    """Return what each derivation of a closure gave, resolved from the bottom, and those of which nobody knows.

    A fetch gives what it is fixed to, whatever else came with it: that depends on where it came from.
    """
    from derive.build.execute import known_of
    from derive.build.plan import resolved_of

    found: dict[Digest, Mapping[str, Output]] = {}
    unknown: list[Derivation] = []
    for one in order:
        if one.fixed is not None:
            found[one.id] = {"out": one.fixed}
            continue
        if any(reference.derivation.id not in found for reference in one.inputs.values()):
            unknown.append(one)
            continue
        inputs = {role: found[given.derivation.id][given.output] for role, given in one.inputs.items()}
        row = store.database.realisation(resolved_of(one, inputs).id)
        if row is None:
            unknown.append(one)
        else:
            found[one.id] = known_of(row).outputs
    return found, unknown


def _image_facts(
    target: Derivation, order: Sequence[Derivation], outputs: rows.Outputs, store: LocalStore
) -> ImageFacts:
    from derive.images.referrers import read_whole

    given = outputs[target.id]
    config = decode(read_whole(store, given["config"].digest))
    assert isinstance(config, Mapping)
    return ImageFacts(
        config=given["config"].digest,
        layers=rows.layers(target, outputs, read_whole(store, given["out"].digest), _diff_ids(config)),
        capabilities=_capabilities(config),
        derivations=rows.realised(order, outputs),
    )


def _diff_ids(config: Mapping[str, Json]) -> tuple[str, ...]:
    rootfs = config["rootfs"]
    assert isinstance(rootfs, Mapping)
    found = rootfs["diff_ids"]
    assert isinstance(found, list)
    return tuple(str(one) for one in found)


def _capabilities(config: Mapping[str, Json]) -> tuple[str, ...]:
    from derive.images.oci import CAPABILITIES_LABEL

    inner = config["config"]
    labels = inner.get("Labels") if isinstance(inner, Mapping) else None
    text = labels.get(CAPABILITIES_LABEL, "") if isinstance(labels, Mapping) else ""
    return tuple(str(text).split())


def _engine() -> tuple[ReleasedEngine, dict[Platform, EngineFacts]]:
    """Return the engine that runs, by its source and by the roots that it would have; these are not built."""
    from derive.engine.derivation import engine_derivations
    from derive.engine.model import source_of
    from derive.engine.source import engine_files

    files = engine_files()
    source = source_of(files)
    made = engine_derivations(files, ENGINE_PLATFORMS)
    facts = {
        platform: EngineFacts(derivation=one.id, output=None, derivations=rows.realised(closure(one), _fixed(one)))
        for platform, one in made.items()
    }
    derivations = {platform: one.id for platform, one in made.items()}
    engine = ReleasedEngine(digest=source.digest, version=__version__, source=source.nar, derivations=derivations)
    return engine, facts


def _fixed(target: Derivation) -> rows.Outputs:
    return {one.id: {"out": one.fixed} for one in closure(target) if one.fixed is not None}
