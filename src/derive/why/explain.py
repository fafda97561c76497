# SPDX-License-Identifier: Apache-2.0
"""Why a derivation was built, or would be now; why one became another.

Edge: the store, through the finder and the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from derive.canonical import Digest
from derive.derivations.model import FlatOutput, Output, TreeOutput, parse_output
from derive.store import graph as stored
from derive.store import history
from derive.store.graph import StoredDerivation
from derive.store.history import PastStep
from derive.store.local import LocalStore
from derive.why.causes import align, root_causes
from derive.why.differences import HunkMoved, OperationMoved, PatchAdded, PatchMoved, PatchRemoved, own_differences
from derive.why.find import Finder, FoundDerivation
from derive.why.graph import Graph, Node, node_of, subject, titled, variant
from derive.why.latest import wanted_in
from derive.why.model import Became, Explanation, Time

_LOOKED_AT = 8  # earlier derivations of one name: of other platforms, mostly, if the first does not fit
_PATCHED = (HunkMoved, OperationMoved, PatchAdded, PatchMoved, PatchRemoved)


def why_built(finder: Finder, found: FoundDerivation) -> Explanation:
    """Explain the latest time that a derivation was run, or why it would be run now."""
    database = finder.store.database
    row = stored.derivations(database, [found.id]).get(found.id)
    steps = history.steps_of(database, found.id)
    last = _time(finder, steps[-1]) if steps else _realised(finder, row)
    runs = [step for step in steps if step.outcome != "reused"]
    lost = len(runs) > 1 and steps[-1] == runs[-1]
    earlier = _predecessor(finder, found, row, steps)
    became = before = None
    if earlier is not None:
        past = history.steps_of(database, earlier.id)
        before = _time(finder, past[-1]) if past else _realised(finder, earlier)
        became = _became(finder, finder.closure([earlier.id]) | found.graph, earlier.id, found.id)
    return Explanation(
        node=found.node,
        now=_now(finder, found, row),
        last=last,
        first=_time(finder, runs[0]) if lost else None,
        lost=lost,
        became=became,
        before=before,
    )


def why_became(finder: Finder, first: FoundDerivation, second: FoundDerivation) -> Became:
    """Return how one derivation became another; of two images also how many bytes each cause moved."""
    from derive.why.weighing import weigh_images

    found = _became(finder, first.graph | second.graph, first.id, second.id)
    return replace(found, moved=weigh_images(finder, first, second))


def _became(finder: Finder, graph: Graph, before: Digest, after: Digest) -> Became:
    graph = finder.with_fetches(graph, graph.fixed(before) ^ graph.fixed(after))
    causes = root_causes(graph, before, after)
    if any(isinstance(cause.difference, _PATCHED) for cause in causes):
        causes = root_causes(finder.labelled(graph), before, after)
    old, new = graph.nodes[before], graph.nodes[after]
    outputs = graph.outputs.get(before), graph.outputs.get(after)
    return Became(
        before=old,
        after=new,
        causes=causes,
        label_only=is_label_only(graph, old, new),
        same_output=outputs[0] is not None and outputs[0] == outputs[1],
        engines=_engines(finder, before, after),
    )


def is_label_only(graph: Graph, before: Node, after: Node) -> bool:
    """Say whether two images differ in their ids alone: the same arguments, and inputs that came out the same."""
    if before.id == after.id or before.builder != "image" or own_differences(before, after):
        return False
    if before.inputs.keys() != after.inputs.keys():
        return False
    outputs = [(graph.output(one), graph.output(two)) for _, one, two in align(graph, before, after) if one and two]
    return all(one is not None and one == two for one, two in outputs)


def _now(finder: Finder, found: FoundDerivation, row: StoredDerivation | None) -> str:
    if row is not None:
        outputs = found.graph.outputs.get(found.id)
        if outputs is None:
            return "nothing is known of its output: it would be built again"
        if all(_is_present(finder.store, parse_output(text)) for text in outputs.values()):
            return "its output is in the store"
        return "its output is gone from the store: it would be made again"
    if found.evaluated is None:
        return "not built"
    from derive.build.execute import store_knowledge
    from derive.build.plan import Action, make_plan

    (step,) = (
        step
        for step in make_plan(found.evaluated, store_knowledge(finder.store)).steps
        if step.derivation.id == found.id
    )
    match step.action:
        case Action.REUSE:
            return "would not be built: its inputs came out as earlier ones did, and their output is in the store"
        case Action.FETCH:
            return f"would be fetched: {step.reason}"
        case Action.BUILD:
            return f"would be built: {step.reason}"
        case Action.SUBSTITUTE:
            return f"would be taken from elsewhere: {step.reason}"


def _is_present(store: LocalStore, output: Output) -> bool:
    match output:
        case TreeOutput(digest):
            return store.has_tree(digest)
        case FlatOutput(digest):
            return store.has_blob(digest)


def _time(finder: Finder, step: PastStep) -> Time:
    run = stored.run_target(finder.store.database, step.run)
    target = None if run is None or run[0] == step.derivation else titled(run[1], run[2])
    return Time(outcome=step.outcome, when_s=step.ended_s, duration_ns=step.duration_ns, target=target)


def _realised(finder: Finder, row: StoredDerivation | None) -> Time | None:
    """Return when a step was run before steps were noted."""
    found = None if row is None else finder.store.database.realisation(row.resolved)
    if row is None or found is None:
        return None
    outcome = "fetched" if row.builder.startswith("fetch-") else "built"
    return Time(outcome=outcome, when_s=found.built_s, duration_ns=found.duration_ns)


def _engines(finder: Finder, before: Digest, after: Digest) -> tuple[str, str] | None:
    """Return the engines that built two derivations, where both are known and differ."""
    rows = stored.derivations(finder.store.database, [before, after])
    known = [finder.store.database.realisation(rows[key].resolved) for key in (before, after) if key in rows]
    engines = [entry.engine[:12] for entry in known if entry is not None]
    return (engines[0], engines[1]) if len(engines) == 2 and engines[0] != engines[1] else None


def _predecessor(
    finder: Finder, found: FoundDerivation, row: StoredDerivation | None, steps: tuple[PastStep, ...]
) -> StoredDerivation | None:
    """Return what was realised last of the same thing before this derivation was for the first time.

    Steps share a name across platforms and versions of Python: one made for just the same is preferred.
    """
    earlier = list(_earlier(finder, found.node, row, steps))[: -_LOOKED_AT - 1 : -1]
    if not earlier or (len(earlier) == 1 and found.node.host != "any"):
        return earlier[0] if earlier else None
    wanted = variant(found.graph.closure(found.id))
    alike: list[StoredDerivation] = []
    for candidate in earlier:
        made_for = variant(finder.closure([candidate.id]).closure(candidate.id))
        if made_for == wanted:
            return candidate
        # A step for any platform is still made of packages or wheels of one: those of another are no past of it.
        if found.node.host != "any" or made_for.platforms == wanted.platforms:
            alike.append(candidate)
    return alike[0] if alike else None


def _earlier(
    finder: Finder, node: Node, row: StoredDerivation | None, steps: tuple[PastStep, ...]
) -> Iterator[StoredDerivation]:
    """Yield what was realised or wanted of the same thing before, the latest last."""
    database = finder.store.database
    first_run = steps[0].run if steps else None
    ranked: list[tuple[int, int, StoredDerivation]] = []
    for place, one in enumerate(_same_thing(finder, node)):
        if one.id == node.id:
            if not steps and row is not None:
                break  # those that were realised later follow
            continue
        runs = [step.run for step in history.steps_of(database, one.id)]
        before = [run for run in runs if first_run is None or run < first_run]
        if before or not runs:
            ranked.append((max(before, default=0), place, one))
    if len(ranked) > 1 and (steps or row is None):
        ids, newest = {one.id for _, _, one in ranked}, max(run for run, _, _ in ranked)
        wanted = wanted_in(database, finder.closure, ids, after=newest, before=first_run)
        ranked = [(wanted.get(one.id, run), place, one) for run, place, one in ranked]
    yield from (one for _, _, one in sorted(ranked, key=lambda item: item[:2]))


def _same_thing(finder: Finder, node: Node) -> list[StoredDerivation]:
    """Return every derivation that is about the same, whatever its version; the latest realised last."""
    database, about = finder.store.database, subject(node)
    if len(about) == 1:
        rows = stored.named(database, node.name)
    elif node.name.endswith((" installed", " byte code", " recorded")):
        rows = stored.globbed(database, f"{about[1]} * {about[2]}")
    else:
        rows = stored.like(database, node.builder, about[1])
    return [row for row in rows if row.host == node.host and subject(node_of(row.id, row.name, row.document)) == about]
