# SPDX-License-Identifier: Apache-2.0
"""Has several builders derive a release, each from nothing into a store of its own, and compares all that they got.

Edge: stores, the network, the sandbox, workers of BuildKit, through the services below it.

The engine's own steps - unpacking, composing, writing layers - run here for each of them, anew: a builder elsewhere
runs what runs programs. So the machine here is part of all that is said, and a certificate of it names that machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from derive.build.answers import known_of
from derive.build.execute import Progress
from derive.build.images import derive_image
from derive.build.service import Options, evaluate
from derive.buildkit.builders import usable_builder
from derive.canonical import Digest
from derive.certificates.compared import Got, Row, first_of, rows_of
from derive.certificates.model import CertifiedImage, Host, Maker
from derive.certificates.rederive import Rederived
from derive.certificates.worker import ask_worker
from derive.derivations.model import Derivation, Platform, closure
from derive.differ.stored import differ_outputs
from derive.errors import HostRefuses, InputErrors
from derive.project import Project
from derive.schedule.choose import choose
from derive.schedule.config import ExecutorEntry
from derive.schedule.graph import can_go_elsewhere
from derive.schedule.model import HERE
from derive.store.local import LocalStore
from derive.why.render import render

_FEWEST = 2

Images = Mapping[Platform, tuple[str, Digest]]
"""By platform, an image's name and the digest that it is recorded with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """One that derives: its name here, and its executor; None is this machine as it is."""

    name: str
    entry: ExecutorEntry | None

    @property
    def elsewhere(self) -> str | None:
        """The builder of buildx that it is, None for this machine."""
        return None if self.entry is None else self.entry.builder


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What builders got, in their order. ``rows`` are all outputs; ``shown`` are lines on the first that differs.

    ``found`` is what all of them got, by platform; ``makers`` are what each of them ran on. Both are empty where they
    differ: then nobody can sign.
    """

    builders: tuple[str, ...]
    rows: tuple[Row, ...]
    found: tuple[Rederived, ...] = ()
    makers: tuple[Maker, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def first(self) -> Row | None:
        """The first output that differs."""
        return first_of(self.rows)


def chosen_builders(text: str, environ: Mapping[str, str]) -> tuple[Builder, ...]:
    """Read ``A,B``: names of executors of the user, and ``here``.

    Raises:
        InputErrors: for fewer than two, for names that are empty or that nothing has, and for one twice.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        hint = f"write names with commas between them: {HERE},NAME"
        raise InputErrors.one("a name is empty", where="--builders", hint=hint)
    known = choose(list(dict.fromkeys(names)), environ, option="--builders")
    entries = {} if known is None else {entry.name: entry for entry in known.entries}
    found = tuple(Builder(name=name, entry=entries.get(name)) for name in names)
    # Whatever it is called, this machine is one builder, and so is a worker.
    same = {one.elsewhere for one in found}
    if len(same) < max(_FEWEST, len(found)):
        message = "one builder alone compares with nothing" if len(found) < _FEWEST else "the same builder twice"
        hint = f"name two or more, such as {HERE} and an executor of your settings: derive executors"
        raise InputErrors.one(message, where="--builders", hint=hint)
    return found


def derive_by(
    builders: Sequence[Builder],
    project: Project,
    wanted: Images,
    folder: Path,
    host: Host,
    salt: Digest,
    options: Options,
    progress: Progress,
    say: Callable[[str], None],
) -> Agreed:
    """Derive images by each builder, into a store of its own below ``folder``, and compare every output.

    Raises what steps raise; HostRefuses when a builder cannot run anything of it.
    """
    targets = {platform: evaluate(project, f"image:{name}", platform) for platform, (name, _) in wanted.items()}
    names = tuple(one.name for one in builders)
    _require(builders, targets)
    with ExitStack() as held:
        stores = []
        images: dict[Platform, list[Digest]] = {platform: [] for platform in wanted}
        makers = []
        for builder in builders:
            say(f"{builder.name} derives it from nothing")
            store = held.enter_context(LocalStore(folder / builder.name))
            stores.append(store)
            own = replace(options, no_cache=True, executor="", on=(builder.name,))
            for platform, (name, _) in sorted(wanted.items()):
                images[platform].append(derive_image(project, name, platform, store, own, progress).manifest)
            makers.append(_maker(builder, store, targets, host, salt))
        rows = [
            row
            for platform, target in sorted(targets.items())
            for row in rows_of(platform, closure(target), [_got(store, target) for store in stores])
        ]
        first = first_of(rows)
        if first is not None:
            return Agreed(builders=names, rows=tuple(rows), shown=_shown(first, stores))
    found = [
        Rederived(
            platform=platform,
            image=CertifiedImage(
                name=name,
                digest=images[platform][0],
                derivation=targets[platform].id,
                steps=sum(one.fixed is None for one in closure(targets[platform])),
            ),
            expected=expected,
        )
        for platform, (name, expected) in sorted(wanted.items())
    ]
    return Agreed(builders=names, rows=tuple(rows), found=tuple(found), makers=tuple(makers))


def _got(store: LocalStore, target: Derivation) -> Got:
    order = closure(target)
    resolved = store.database.resolved_ids(one.id for one in order)
    rows = store.database.realisations(resolved.values())
    return {one.id: known_of(rows[resolved[one.id]]) for one in order if resolved.get(one.id) in rows}


def _maker(
    builder: Builder, store: LocalStore, targets: Mapping[Platform, Derivation], host: Host, salt: Digest
) -> Maker:
    """Say what a builder ran on, and how many steps: of one elsewhere, those that its worker ran."""
    steps = {one.id: one for target in targets.values() for one in closure(target) if one.fixed is None}
    elsewhere = builder.elsewhere
    if elsewhere is None:
        return Maker(
            buildkit=None,
            boot=host.boot,
            architecture=host.architecture,
            cpu=host.cpu,
            cores=host.cores,
            memory_bytes=host.memory_bytes,
            kernel=host.kernel,
            steps=len(steps),
        )
    resolved = store.database.resolved_ids(steps)
    ran = [steps[key] for key, one in resolved.items() if store.database.worker(one)]
    step = next(one for one in ran if can_go_elsewhere(one))
    root = step.inputs["root"]
    output = _got(store, root.derivation)[root.derivation.id].outputs[root.output]
    return ask_worker(store, elsewhere, output, step.build, salt, steps=len(ran))


def _require(builders: Sequence[Builder], targets: Mapping[Platform, Derivation]) -> None:
    """Find out first whether each builder is there, and has anything to do."""
    platforms = {one.build for target in targets.values() for one in closure(target) if can_go_elsewhere(one)}
    for builder in builders:
        if builder.elsewhere is None:
            continue
        if not platforms:
            raise HostRefuses(
                f"{builder.name} has nothing to do: every step of these images is the engine's own, which runs here",
                hint="without --builders every step is built twice here",
            )
        for platform in sorted(platforms):
            found = usable_builder(builder.elsewhere, platform)
            nodes = [node.name for node in found.nodes if node.is_running and platform in node.platforms]
            if len(nodes) > 1:
                raise HostRefuses(
                    f"builder {builder.elsewhere} has several nodes for {platform}, and nothing says which ran a step",
                    detail=(f"nodes     {', '.join(nodes)}",),
                    hint="make a builder of one node: docker buildx create --name NAME ENDPOINT",
                )


def _shown(first: Row, stores: Sequence[LocalStore]) -> tuple[str, ...]:
    """Show what is inside of two outputs that differ, of the first builder and of the first that has it otherwise."""
    at = next(at for at, one in enumerate(first.got) if one != first.got[0])
    before, after = first.got[0], first.got[at]
    if before is None or after is None:
        return ("only one of the two gave this output",)
    lines = differ_outputs(first.name, before, after, (stores[0], stores[at]))
    return tuple(render(lines, colour=False).splitlines())
