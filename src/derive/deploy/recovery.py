# SPDX-License-Identifier: Apache-2.0
"""What a site is in the middle of, from what its nodes remember and run: also after a deploy was killed at any step.

Core: no IO. Standard library only.

What runs is read off the containers themselves, by the label that names their launch: a state may be older than they
are. What was meant is read off the states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from derive.deploy.again import PLAIN, Again
from derive.deploy.model import Container, NodeState, Step
from derive.deploy.recovery_known import FAILED, SERVING, STOPPED, SUPERVISED, Known, names, node_runs, number
from derive.deploy.situation import NONE, UNASKED, UP, Kind, LeaseSeen, NodeRuns, Situation
from derive.words import count_text

__all__ = ["NONE", "UNASKED", "UP", "Kind", "LeaseSeen", "NodeRuns", "Situation", "judge"]


def judge(
    states: Mapping[str, NodeState | None],
    containers: Mapping[str, Sequence[Container] | None],
    lease: Mapping[str, LeaseSeen | None] | None = None,
    *,
    service: str,
    again: Again = PLAIN,
) -> Situation:
    """Say what a site is in; nodes in order of rank. Containers of a node are None where it cannot be asked.

    ``again`` is what the commands that are proposed repeat.
    """
    names = tuple(dict.fromkeys((*containers, *states)))
    nodes = tuple(node_runs(name, states.get(name), containers.get(name), service) for name in names)
    known = Known(service=service, nodes=nodes, states={name: states.get(name) for name in names}, again=again)
    holder = next((one for one in (lease or {}).values() if one is not None and one.alive), None)
    if holder is not None:
        return _deploying(known, holder)
    if all(one.state == UNASKED for one in nodes):
        return known.says(Kind.UNKNOWN, "no node can be asked", _ask(known))
    if any(one.is_up and one.launch is None for one in nodes):
        return _foreign(known)
    step = known.step
    if step is not None:
        return _interrupted(known, step)
    ends = {state.step for state in known.states.values() if state is not None}
    if FAILED in ends:
        return _failed(known)
    if SERVING in ends:
        return _served(known)
    if any(one.is_up for one in nodes):
        return _unremembered(known, stopped=STOPPED in ends)
    return _quiet(known, stopped=STOPPED in ends)


def _ask(known: Known) -> str:
    return f"see that the machines are up and SSH reaches them, then ask again: {known.again.command('derive status')}"


UNDO = "undo"
"""What a state's step says while a deploy that failed goes back to what ran before."""


def _deploying(known: Known, holder: LeaseSeen) -> Situation:
    step, wanted = known.step, known.wanted
    what = "" if step is None or wanted is None else f", {wanted.release} at the step {step}"
    watch = known.again.command("derive status --watch")
    following = f"wait for it: {watch}; if it is gone, its lease ends in {holder.expires_in_s} s"
    coming = wanted if step is not None else None
    headline = f"{holder.owner} is at work{what}"
    return known.says(Kind.DEPLOYING, headline, following, served=known.everywhere, wanted=coming, step=step)


def _foreign(known: Known) -> Situation:
    theirs = [one.node for one in known.nodes if one.is_up and one.launch is None]
    if len(theirs) == len([one for one in known.nodes if one.is_up]):
        following = f"replace it: {known.deploy(None)}; or stop it: {known.stop(container=True)}"
        return known.says(Kind.FOREIGN, f"no deploy started what runs on {names(theirs)}", following)
    following = f"stop it there: {known.stop(container=True)}; then {known.deploy(known.wanted)}"
    return known.says(Kind.MIXED, known.told(), following, wanted=known.wanted)


def _interrupted(known: Known, step: str) -> Situation:
    wanted, former, everywhere = known.wanted, known.former, known.everywhere
    release = "something" if wanted is None else wanted.release
    headline = f"the deploy of {release} was cut off at the step {step}; {known.told()}"
    if step == UNDO:
        # What was wanted last is what it was going back to.
        headline = f"a deploy that failed was cut off on the way back to {release}; {known.told()}"
    again = f"deploy it again: {known.deploy(wanted)}"
    untouched = number(step) < Step.STOP.number and everywhere is not None and everywhere != wanted
    if untouched and everywhere is not None:
        headline = f"the deploy of {release} was cut off at the step {step}; {everywhere.release} goes on serving"
    elif former is not None:
        again += f"; or go back: {known.deploy(former)}"
    return known.says(Kind.INTERRUPTED, headline, again, served=everywhere, wanted=wanted, step=step)


def _failed(known: Known) -> Situation:
    wanted, former = known.wanted, known.former
    release = "a release" if wanted is None else wanted.release
    headline = f"the deploy of {release} failed, and what ran before did not come back; {known.told()}"
    if known.last is not None and known.last.deploy.startswith(SUPERVISED):
        headline = f"a rank of {release} died, and it was not started again; {known.told()}"
    following = f"read why: {known.again.command('derive logs NODE --former')}; then {known.deploy(wanted)}"
    if former is not None:
        following += f"; or go back: {known.deploy(former)}"
    return known.says(Kind.FAILED, headline, following, wanted=wanted)


def _served(known: Known) -> Situation:
    """Judge what is to serve: on every node, the same, and remembered as what serves."""
    everywhere, current = known.everywhere, {}
    for name, state in known.states.items():
        if state is not None and state.step == SERVING and state.current is not None:
            current[name] = state.current
    wanted = next(iter(current.values()), None)
    agreed = everywhere is not None and {one.launch_bundle for one in current.values()} == {everywhere.launch_bundle}
    asked = [one.node for one in known.nodes if one.state != UNASKED]
    if agreed and everywhere is not None and set(asked) <= current.keys():
        if known.unasked:
            headline = f"{everywhere.release} serves on {names(asked)}; {names(known.unasked)} cannot be asked"
            return known.says(Kind.UNKNOWN, headline, _ask(known), served=everywhere)
        headline = f"{everywhere.release} ({everywhere.shape}) serves on {count_text(len(asked), 'node')}"
        return known.says(Kind.SERVING, headline, "nothing to do", served=everywhere)
    ended = [one.node for one in known.nodes if one.node in current and not one.is_up and one.state != UNASKED]
    why = known.again.command(f"derive logs {ended[0]}" if ended else "derive status")
    headline = f"{'something' if wanted is None else wanted.release} is to serve; {known.told()}"
    following = f"see why: {why}; then {known.deploy(wanted)}"
    return known.says(Kind.MIXED, headline, following, wanted=wanted)


def _unremembered(known: Known, *, stopped: bool) -> Situation:
    why = "it was stopped" if stopped else "no node remembers a deploy"
    following = f"stop it: {known.stop()}; or {known.deploy(known.everywhere)}"
    return known.says(Kind.MIXED, f"{why}, and {known.told()}", following)


def _quiet(known: Known, *, stopped: bool) -> Situation:
    if known.unasked:
        asked = [one.node for one in known.nodes if one.state != UNASKED]
        headline = f"nothing runs on {names(asked)}; {names(known.unasked)} cannot be asked"
        return known.says(Kind.UNKNOWN, headline, _ask(known))
    last = known.last
    if stopped:
        current = None if last is None else last.current or last.wanted
        if current is None and last is not None and last.healthy:
            current = last.healthy[0]
        headline = f"{known.service} is stopped" + ("" if current is None else f"; {current.release} ran last")
        return known.says(Kind.STOPPED, headline, f"start it: {known.deploy(current)}")
    return known.says(Kind.NOTHING, f"no {known.service} was ever deployed here", f"deploy one: {known.deploy(None)}")
