# SPDX-License-Identifier: Apache-2.0
"""Is each kernel right: on fresh random data, at each row count, twice, alone and inside a batch?

Edge: the GPU. A kernel is compared with its reference; its outputs are poisoned between guards; a row's bits must be
the same alone, in every batch and at every place, whatever the other rows hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch  # type: ignore[import-not-found]

from . import buffers
from .setting import Served, Setting, decimal, say, watching_units

_ALONE = 6
"""So many rows of a batch are also run alone."""


def run(setting: Setting) -> dict[str, Any]:
    """Check every case; a problem is a line of words, and no problem stops the rest."""
    device = torch.device("cuda")
    found = []
    with watching_units() as served:
        for kernel, case in setting.cases():
            say(f"correct: {kernel} {case.name}")
            state = case.state(device, setting.generator(device, kernel, case.name, "state"))
            found += list(_checked(setting, served, kernel, case, state))
            found.append(_mixed(setting, served, kernel, case, state))
            del state
            torch.cuda.empty_cache()
    return {"seed": setting.seed, "checks": found, "ok": all(not one["problems"] for one in found)}


def _checked(setting: Setting, served: Served, kernel: str, case: Any, state: Any) -> Iterator[dict[str, Any]]:
    for kind in case.kinds:
        for rows in case.rows:
            generator = setting.generator(torch.device("cuda"), kernel, case.name, kind, rows)
            inputs = case.inputs(state, rows, kind, generator)
            problems: list[str] = []
            figures: Mapping[str, float] = {}
            try:
                got = twice(case, state, inputs, problems)
                compared = case.compare(state, inputs, got, case.reference(state, inputs))
                problems += compared.problems
                figures = compared.figures
                problems += _alone(case, state, inputs, got, generator)
            except Exception as error:  # noqa: BLE001 - the other checks go on
                problems.append(f"{type(error).__name__}: {error}")
            yield _finding(kernel, case, f"{kind}, against the reference", rows, served.take(), problems, figures)


def _finding(
    kernel: str, case: Any, what: str, rows: int, units: list[str], problems: list[str], figures: Mapping[str, float]
) -> dict[str, Any]:
    for problem in problems:
        say(f"  {rows} rows, {what}: {problem}")
    return {
        "kernel": kernel,
        "case": case.name,
        "what": what,
        "rows": rows,
        "units": units,
        "problems": problems,
        "figures": {name: decimal(value) for name, value in sorted(figures.items())},
    }


def twice(case: Any, state: Any, inputs: Any, problems: list[str]) -> dict[str, Any]:
    """Run twice over outputs poisoned differently; both must give the same bits, and leave guards and inputs alone."""
    device = next(iter(inputs.values())).device
    rows = next(iter(inputs.values())).shape[0]
    before = {name: one.clone() for name, one in inputs.items()}
    results = []
    for poison in buffers.POISONS:
        guarded = buffers.allocate(case.outputs(state, rows), device)
        for one in guarded.values():
            one.poison(poison)
        case.run(buffers.own(state), inputs, {name: one.tensor for name, one in guarded.items()})
        torch.cuda.synchronize()
        problems += [f"{name}: written outside of it" for name, one in guarded.items() if not one.is_guarded(poison)]
        results.append({name: one.tensor for name, one in guarded.items()})
    first, second = results
    for name in first:
        rows_differ = differing_rows(first[name], second[name])
        if rows_differ:
            problems.append(f"{name}: two runs differ in {len(rows_differ)} rows, first {rows_differ[0]}")
    problems += [
        f"{name}: the kernel changed its input" for name in inputs if differing_rows(before[name], inputs[name])
    ]
    return second


def differing_rows(left: Any, right: Any) -> list[int]:
    """Return the rows whose bytes differ."""
    differs = (buffers.as_bytes(left) != buffers.as_bytes(right)).any(dim=1)
    found: list[int] = differs.nonzero().flatten().tolist()
    return found


def _alone(case: Any, state: Any, inputs: Any, got: Any, generator: Any) -> Iterator[str]:
    """Yield the rows whose bits are others when they come alone."""
    rows = next(iter(inputs.values())).shape[0]
    others = torch.randint(rows, (_ALONE - 2,), generator=generator, device=generator.device).tolist()
    for row in sorted({0, rows - 1, *others}):
        alone = launched(case, state, {name: one[row : row + 1].contiguous() for name, one in inputs.items()})
        for name, one in alone.items():
            if differing_rows(one, got[name][row : row + 1]):
                yield f"{name}: row {row} has other bits when it comes alone"


def launched(case: Any, state: Any, inputs: Any) -> dict[str, Any]:
    """Run once and return the outputs."""
    first = next(iter(inputs.values()))
    outputs = buffers.blank(case.outputs(state, first.shape[0]), first.device)
    case.run(buffers.own(state), inputs, outputs)
    torch.cuda.synchronize()
    return outputs


def _mixed(setting: Setting, served: Served, kernel: str, case: Any, state: Any) -> dict[str, Any]:
    """One row of each kind, at a random place in a batch of every size among rows of all kinds, keeps its bits."""
    device = torch.device("cuda")
    generator = setting.generator(device, kernel, case.name, "mixed")
    problems: list[str] = []
    try:
        for kind in case.kinds:
            probe = case.inputs(state, 1, kind, generator)
            alone = launched(case, state, probe)
            for rows in case.rows:
                batch = _batch(case, state, rows, generator)
                place = int(torch.randint(rows, (), generator=generator, device=device))
                for name, one in probe.items():
                    batch[name][place : place + 1].copy_(one)
                got = launched(case, state, batch)
                problems += [
                    f"{name}: a row of kind {kind} has other bits at place {place} of {rows} mixed rows"
                    for name, one in alone.items()
                    if differing_rows(one, got[name][place : place + 1])
                ]
    except Exception as error:  # noqa: BLE001 - the other checks go on
        problems.append(f"{type(error).__name__}: {error}")
    return _finding(kernel, case, "a row among rows of all kinds", max(case.rows), served.take(), problems, {})


def _batch(case: Any, state: Any, rows: int, generator: Any) -> dict[str, Any]:
    """Return rows of all kinds, shuffled together."""
    kinds = [case.inputs(state, rows, kind, generator) for kind in case.kinds]
    choice = torch.randint(len(kinds), (rows,), generator=generator, device=generator.device)
    batch = {name: one.contiguous().clone() for name, one in kinds[0].items()}
    for index, inputs in enumerate(kinds):
        for name, one in inputs.items():
            buffers.as_bytes(batch[name])[choice == index] = buffers.as_bytes(one)[choice == index]
    return batch
