# SPDX-License-Identifier: Apache-2.0
"""A plan says what would be fetched, built and reused, and why, before anything happens.

Core: no IO. What is known of the store comes in through :class:`derive.build.knowledge.Knowledge`.

Two passes over the closure. Upwards: whose outputs are known already, by derivation id or, where only an id moved, by
resolved id (early cutoff). Downwards from the target: what is needed, given what is present.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from derive.build.agreement import HERE, contradicted
from derive.build.knowledge import Knowledge, Known, Rules, Vouch, all_stand, no_rule, nobody
from derive.canonical import Digest, Json
from derive.derivations.model import Derivation, Output, ResolvedDerivation, closure, resolve
from derive.derivations.outputs import has_shape


class Action(Enum):
    """What a step does."""

    REUSE = "reuse"
    FETCH = "fetch"
    BUILD = "build"
    SUBSTITUTE = "substitute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One derivation of the plan. ``expected_ns`` is what it took last time, 0 when never seen.

    ``outputs`` are those of a step that is reused; of one that is substituted, ``vouch`` has them.
    """

    derivation: Derivation
    action: Action
    reason: str
    outputs: Mapping[str, Output] | None = None
    expected_ns: int = 0
    vouch: Vouch | None = None

    @property
    def fetch_bytes(self) -> int:
        """Bytes that this step fetches."""
        size = self.derivation.arguments.get("size") if self.action is Action.FETCH else None
        return size if isinstance(size, int) else 0

    @property
    def substitute_bytes(self) -> int:
        """Bytes of the contents that this step takes from a cache: the signers' word."""
        return self.vouch.size_bytes if self.action is Action.SUBSTITUTE and self.vouch is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps in an order in which they can run. Reused steps are listed only where something above them needs them.

    ``is_whole``: every output of the closure is to be present. ``is_own``: built here and by nobody else.

    ``cutoffs`` are derivations never seen under their id whose resolved derivation was realised: whoever runs the plan
    remembers that they mean the same. ``words`` are derivations that are known by others' word alone. ``asked`` are the
    rules that have to hold for the outputs of derivations because of what is built upon them, by id. ``title`` is what
    a plan is called that has no one target.
    """

    target: Derivation
    steps: tuple[Step, ...]
    cutoffs: tuple[tuple[Derivation, Digest], ...] = ()
    words: tuple[tuple[Derivation, Vouch], ...] = ()
    asked: Mapping[Digest, Rules] = field(default_factory=dict)
    title: str | None = None
    is_whole: bool = False
    is_own: bool = False

    def of(self, action: Action) -> tuple[Step, ...]:
        """Return the steps of one action."""
        return tuple(step for step in self.steps if step.action is action)

    @property
    def is_done(self) -> bool:
        """Say whether nothing is left to do."""
        return all(step.action is Action.REUSE for step in self.steps)

    @property
    def fetch_bytes(self) -> int:
        """Bytes to fetch."""
        return sum(step.fetch_bytes for step in self.steps)

    @property
    def substitute_bytes(self) -> int:
        """Bytes of the contents to take from caches."""
        return sum(step.substitute_bytes for step in self.steps)

    @property
    def unknown_sizes(self) -> int:
        """How many fetches are known by their hash alone."""
        return sum(not isinstance(s.derivation.arguments.get("size"), int) for s in self.of(Action.FETCH))

    @property
    def disk_bytes(self) -> int:
        """Bytes that the store may grow by: an estimate that errs upwards.

        A .deb or source archive unpacks to about five times its size, and its contents stand once more in a layer;
        a wheel stays packed.
        """
        fetched = sum(s.fetch_bytes * (1 if s.derivation.builder == "fetch-wheel" else 6) for s in self.steps)
        return fetched + fetched // 4 + (64 << 20) * bool(self.of(Action.BUILD)) + self.substitute_bytes

    def document(self) -> dict[str, Json]:
        """Return the plan as a record's body."""
        return {
            "target": self.target.name,
            "derivation": str(self.target.id),
            "fetch_bytes": self.fetch_bytes,
            "fetches_of_unknown_size": self.unknown_sizes,
            "disk_bytes": self.disk_bytes,
            "steps": [_row(step) for step in self.steps],
            **({"substitute_bytes": self.substitute_bytes} if self.of(Action.SUBSTITUTE) else {}),
        }


def _row(step: Step) -> dict[str, Json]:
    row: dict[str, Json] = {
        "name": step.derivation.name,
        "derivation": str(step.derivation.id),
        "builder": step.derivation.builder,
        "host": step.derivation.host,
        "action": step.action.value,
        "reason": step.reason,
    }
    if step.action is Action.SUBSTITUTE and step.vouch is not None:
        row |= {"caches": step.vouch.caches, "signers": step.vouch.signers, "bytes": step.vouch.size_bytes}
    return row


def resolved_of(derivation: Derivation, inputs: Mapping[str, Output]) -> ResolvedDerivation:
    """Resolve a derivation; the image step keeps its own id, which its config carries as a label."""
    if derivation.builder != "image":
        return resolve(derivation, inputs)
    return ResolvedDerivation(
        builder=derivation.builder,
        version=derivation.version,
        build=derivation.build,
        host=derivation.host,
        arguments={**derivation.arguments, "derivation": derivation.id.hex},
        inputs={role: inputs[role] for role in derivation.inputs},
    )


def make_plan(target: Derivation, knowledge: Knowledge, *, whole: bool = False, own: bool = False) -> Plan:
    """Plan what the target needs; with ``whole``, have every output of its closure present at the end.

    Nothing of a plan that is whole, or the machine's ``own``, comes from elsewhere.
    """
    order = closure(target)
    asked = _asked(order, knowledge)
    memory = _Memory(order, replace(knowledge, vouched=nobody) if whole or own else knowledge, asked)
    if whole:
        memory.ask(order)
    needed: dict[Digest, Step] = {}
    wanted = {derivation.id for derivation in order} if whole else {target.id}
    for derivation in reversed(order):
        if derivation.id not in wanted:
            continue
        step = _decide(derivation, memory, knowledge)
        needed[derivation.id] = step
        if step.action is Action.BUILD:
            wanted.update(reference.derivation.id for reference in derivation.inputs.values())
    for derivation in order:
        if derivation.id not in needed and _moved_fetch(derivation, memory, knowledge):
            reason = "its name, version or place in the lock moved while its hash did not: fetched again"
            needed[derivation.id] = Step(derivation=derivation, action=Action.FETCH, reason=reason)
    steps = tuple(needed[d.id] for d in order if d.id in needed)
    return Plan(
        target=target,
        steps=steps,
        cutoffs=tuple(memory.cutoffs),
        words=memory.words(),
        asked=asked,
        is_whole=whole,
        is_own=whole or own,
    )


def _asked(order: Sequence[Derivation], knowledge: Knowledge) -> dict[Digest, Rules]:
    """Return what the rules for steps ask of what lies below them: a lie there is as good as one above.

    Below a step that a rule names, that rule says what is asked. A fetch is what its hash says, whoever gave it.
    """
    if knowledge.rule is no_rule:
        return {}
    asked: dict[Digest, Rules] = {}
    for derivation in reversed(order):
        if derivation.fixed is not None:
            asked.pop(derivation.id, None)
            continue
        rule = knowledge.rule(derivation)
        below = asked.get(derivation.id, frozenset()) if rule is None else frozenset((rule,))
        if rule is not None:
            asked.pop(derivation.id, None)
        for reference in derivation.inputs.values() if below else ():
            asked[reference.derivation.id] = asked.get(reference.derivation.id, frozenset()) | below
    return asked


class _Memory:
    """What is known of each derivation; asked of the store in batches, and only where the plan looks."""

    def __init__(self, order: Sequence[Derivation], knowledge: Knowledge, asked: Mapping[Digest, Rules]) -> None:
        self._knowledge = knowledge
        self._asked = asked
        self._order = order
        self._resolved = dict(knowledge.resolved_ids([d.id for d in order]))
        if knowledge.stands is not all_stand:
            self._forget_fallen(order)
        self._known: dict[Digest, Known | None] = {}
        self._unsure: dict[Digest, Vouch] = {}
        self.cutoffs: list[tuple[Derivation, Digest]] = []
        self._find_cutoffs([d for d in order if d.id not in self._resolved and d.fixed is None])

    def _forget_fallen(self, order: Sequence[Derivation]) -> None:
        """Forget to what steps resolve that rest on an output that counts no more: what was built upon it falls too.

        What they resolve to is found anew from the inputs that count. A fetch is what its hash says, whoever gave it.
        """
        fallen: set[Digest] = set()
        for derivation in order:
            below = (reference.derivation for reference in derivation.inputs.values())
            resolved = self._resolved.get(derivation.id)
            rests = any(one.id in fallen for one in below if one.fixed is None)
            counts = self._knowledge.word_stands(derivation, self._asked.get(derivation.id, frozenset()))
            if counts is None:  # else it is the latest that was known, whatever lies here
                counts = resolved is None or self._stands(derivation, resolved)
            if rests or not counts:
                fallen.add(derivation.id)
            if rests:
                self._resolved.pop(derivation.id, None)

    def is_named(self, derivation: Derivation) -> bool:
        """Say whether this very derivation was realised before."""
        return derivation.id in self._resolved

    def __call__(self, derivation: Derivation) -> Known | None:
        """Return what an earlier run gave, or None."""
        if derivation.id not in self._known:
            self.ask([derivation])
        return self._known[derivation.id]

    def ask(self, derivations: Iterable[Derivation]) -> None:
        """Ask the store for several at once, ahead of need."""
        named = {d.id: d for d in derivations if d.id not in self._known}
        asked = {key: self._resolved.get(key) for key in named}
        rows = self._knowledge.realised([resolved for resolved in asked.values() if resolved is not None])
        said = self._vouched(named, asked)
        for key, resolved in asked.items():
            row = rows.get(resolved) if resolved is not None else None
            if row is not None and not (has_shape(named[key], row.outputs) and self._stands(named[key], row.resolved)):
                row = None
            vouch = said.get(key)
            if row is not None and vouch is not None and row.outputs != vouch.outputs:
                pair = ((HERE, row.outputs), (", ".join(vouch.signers), vouch.outputs))
                raise contradicted(named[key].name, vouch.resolved, pair)
            self._known[key] = row if vouch is None else _joined(row, vouch)

    def _vouched(
        self, named: Mapping[Digest, Derivation], asked: Mapping[Digest, Digest | None]
    ) -> Mapping[Digest, Vouch]:
        """Ask what others say of derivations; a fetch has a resolved id also where it was never made here."""
        if self._knowledge.vouched is nobody:
            return {}
        pairs = {}
        for key, one in named.items():
            resolved = asked[key]
            if resolved is None and one.fixed is not None:
                resolved = resolved_of(one, {}).id
            if resolved is not None:
                pairs[key] = (one, resolved)
        said = self._knowledge.vouched(list(pairs.values()))
        found = {key: said[resolved] for key, (_, resolved) in pairs.items() if resolved in said}
        enough = {key for key, vouch in found.items() if vouch.suffices(self._asked.get(key, ()))}
        self._unsure.update({key: vouch for key, vouch in found.items() if key not in enough})
        return {key: vouch for key, vouch in found.items() if key in enough}

    def words(self) -> tuple[tuple[Derivation, Vouch], ...]:
        """Return what is known by others' word alone, and not made or brought here, inputs before what has them."""
        known = ((one, self._known.get(one.id)) for one in self._order)
        return tuple((one, found.vouch) for one, found in known if found and found.vouch and not found.is_here)

    def _stands(self, derivation: Derivation, resolved: Digest) -> bool:
        return self._knowledge.stands(derivation, resolved, self._asked.get(derivation.id, frozenset()))

    def lacking(self, derivation: Derivation) -> str | None:
        """Say of whom too few vouch for a derivation; None where nobody does, or enough do."""
        vouch = self._unsure.get(derivation.id)
        return None if vouch is None else vouch.lack(self._asked.get(derivation.id, ()))

    def _find_cutoffs(self, unnamed: Sequence[Derivation]) -> None:
        """Of those never seen under their id, find the ones whose resolved derivation was realised."""
        new = {derivation.id for derivation in unnamed}
        self.ask(r.derivation for d in unnamed for r in d.inputs.values() if r.derivation.id not in new)
        for derivation in unnamed:
            inputs = known_inputs(derivation, self)
            if inputs is not None:
                self._resolved[derivation.id] = resolved_of(derivation, inputs).id
            self._known.pop(derivation.id, None)
            self.ask([derivation])
            found = self._known[derivation.id]
            if found is not None and found.is_here:
                self.cutoffs.append((derivation, found.resolved))


def _joined(row: Known | None, vouch: Vouch) -> Known:
    """Join what was realised here with what others say, which agree."""
    if row is not None:
        return replace(row, vouch=vouch)
    return Known(vouch.resolved, vouch.outputs, vouch.duration_ns, vouch, is_here=False)


def known_inputs(derivation: Derivation, known: Callable[[Derivation], Known | None]) -> dict[str, Output] | None:
    """Return the input digests when all are known without building anything."""
    inputs: dict[str, Output] = {}
    for role, reference in derivation.inputs.items():
        fixed = reference.derivation.fixed
        if fixed is not None:
            inputs[role] = fixed
            continue
        found = known(reference.derivation)
        if found is None or reference.output not in found.outputs:
            return None
        inputs[role] = found.outputs[reference.output]
    return inputs


def _decide(derivation: Derivation, memory: _Memory, knowledge: Knowledge) -> Step:
    found = memory(derivation)
    if found is not None and found.is_here and all(map(knowledge.present, found.outputs.values())):
        return Step(
            derivation=derivation,
            action=Action.REUSE,
            reason="its output is in the store",
            outputs=found.outputs,
            expected_ns=found.duration_ns,
        )
    if found is not None and found.vouch is not None:
        return Step(
            derivation=derivation,
            action=Action.SUBSTITUTE,
            reason=(
                f"its output comes from the cache {' or '.join(found.vouch.caches)}, "
                f"vouched for by {', '.join(found.vouch.signers)}"
            ),
            expected_ns=found.duration_ns,
            vouch=found.vouch,
        )
    action = Action.BUILD if derivation.fixed is None else Action.FETCH
    if found is not None:
        reason = "its output is gone from the store"
    elif derivation.fixed is not None:
        reason = "not fetched yet"
    else:
        reason = _build_reason(derivation, memory)
    lacking = memory.lacking(derivation)
    if lacking is not None:
        reason += f"; {lacking}"
    return Step(
        derivation=derivation, action=action, reason=reason, expected_ns=found.duration_ns if found is not None else 0
    )


def _build_reason(derivation: Derivation, memory: _Memory) -> str:
    unknown = [
        reference.derivation.name
        for _, reference in sorted(derivation.inputs.items())
        if reference.derivation.fixed is None and memory(reference.derivation) is None
    ]
    if not unknown:
        return "never built from these inputs"
    if len(unknown) == 1:
        return f"its input {unknown[0]} is not built yet"
    return f"its input {unknown[0]} and {len(unknown) - 1} more are not built yet"


def _moved_fetch(derivation: Derivation, memory: _Memory, knowledge: Knowledge) -> bool:
    """Say whether a fetch was never made as it stands in the lock, while its bytes lie in the store."""
    fixed = derivation.fixed
    return fixed is not None and not memory.is_named(derivation) and knowledge.present(fixed)
