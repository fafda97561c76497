# SPDX-License-Identifier: Apache-2.0
"""The checks of recipes: that every shape resolves, and that ports and model make sense.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from derive.doctor.check import Answer, Check, Unknown, each_shape, key_place
from derive.doctor.model import Unreadable
from derive.errors import Problem, expected_got
from derive.git.model import check_ref

if TYPE_CHECKING:
    from derive.doctor.case import Case
    from derive.recipes.resolved import Resolved

EPHEMERAL_FROM = 10000
"""The lowest port that a Spark gives out by itself, as the sites that this project serves set it."""

_PRIVILEGED = 1024
_DAY_S = 86400


def _loads(case: Case) -> Iterator[Answer]:
    problems = case.recipes.problems
    yield from problems
    yield from (one for one in case.recipes.silent if not any(wrong.where.startswith(one.where) for wrong in problems))


def _derived(_: Case, resolved: Resolved) -> Iterator[Answer]:
    """Compute again, by themselves, the values that limit what a step may take."""
    arguments = resolved.arguments
    sequences, budget = arguments.get("max-num-seqs"), arguments.get("max-num-batched-tokens")
    if resolved.schema is None or not isinstance(sequences, int) or not isinstance(budget, int):
        return
    speculative = arguments.get("speculative-config")
    drafts = speculative.get("num_speculative_tokens") if isinstance(speculative, Mapping) else None
    rows = sequences * (1 + (drafts if isinstance(drafts, int) else 0))
    wanted = {"long-prefill-token-threshold": budget - rows, "max-cudagraph-capture-size": rows}
    for name, value in wanted.items():
        if name in arguments and arguments[name] != value:
            yield Problem(
                where=key_place(resolved, f"arguments.{name}"),
                message=f"{name} does not agree with what it follows from",
                detail=expected_got(value, arguments[name]),
            )
    compilation = arguments.get("compilation-config")
    sizes = compilation.get("cudagraph_capture_sizes") if isinstance(compilation, Mapping) else None
    if isinstance(sizes, list | tuple) and (not sizes or sizes[-1] != rows):
        yield Problem(
            where=key_place(resolved, "arguments.compilation-config.cudagraph_capture_sizes"),
            message="the largest captured size is not that of a full step",
            detail=expected_got(rows, sizes[-1] if sizes else "none"),
        )


def _ready(_: Case, resolved: Resolved) -> Iterator[Answer]:
    ready = resolved.ready
    if not ready.path.startswith("/"):
        detail = expected_got("a path, as in /v1/models", ready.path)
        yield Problem(where=key_place(resolved, "service.ready.path"), message="not a path of HTTP", detail=detail)
    if not 0 < ready.timeout_seconds <= _DAY_S:
        yield Problem(
            where=key_place(resolved, "service.ready.timeout"),
            message="no time in which a service starts",
            detail=expected_got(f"1 to {_DAY_S} seconds", ready.timeout_seconds),
        )
    startup = next((one for one in resolved.guard if one.phase == "startup"), None)
    if startup is not None and startup.wait_seconds >= ready.timeout_seconds:
        yield Problem(
            where=key_place(resolved, "service.ready.timeout"),
            message="given up before the guard gives up waiting for the container",
            detail=expected_got(f"more than {startup.wait_seconds} seconds", ready.timeout_seconds),
        )


def _ports(_: Case, resolved: Resolved) -> Iterator[Answer]:
    ports = {"service.port": resolved.port, "service.master-port": resolved.master_port}
    for key, port in ports.items():
        if port is not None and not _PRIVILEGED <= port < EPHEMERAL_FROM:
            who = "only root may take" if port < _PRIVILEGED else "the kernel may have given to any connection"
            detail = expected_got(f"{_PRIVILEGED} to {EPHEMERAL_FROM - 1}", port)
            yield Problem(where=key_place(resolved, key), message=f"a port that {who}", detail=detail)


def _branch(case: Case, resolved: Resolved) -> Iterator[Answer]:
    branch = resolved.promotion.branch
    if branch is None:
        return
    where = key_place(resolved, "promotion.branch")
    git = case.facts.git
    try:
        check_ref(branch, "branch")
    except ValueError as error:
        yield Problem(where=where, message=str(error))
        return
    if isinstance(git, Unreadable):
        yield Unknown(where=where, reason=f"whether there is such a branch: {git.reason}")
    elif branch not in git.branches:
        detail = expected_got("a branch here or at a remote", branch)
        yield Problem(where=where, message="git knows no branch of this name", detail=detail)


def _model(_: Case, resolved: Resolved) -> Iterator[Answer]:
    model = resolved.model
    if model is not None and model.why_unpinned is not None:
        yield Problem(
            where=key_place(resolved, "model.huggingface"),
            message=f"the checkpoint {model.name} is not pinned: it renders, and is neither released nor deployed",
            detail=(f"reason    {model.why_unpinned}",),
        )


CHECKS: tuple[Check, ...] = (
    Check(
        id="recipe.loads",
        severity="error",
        what="every recipe can be read, and every shape of it resolves",
        why="a shape that does not resolve renders nothing, and every check of it is unknown",
        how="each recipes/*.toml key by key; the shared tables merged with those of each shape; derived values "
        "computed, and refused where they are typed",
        fix="see docs/recipes.md",
        place="recipes/*.toml",
        judge=_loads,
    ),
    Check(
        id="recipe.derived",
        severity="error",
        what="values that follow from others agree with them",
        why="a prefill that takes the rows of decode stalls every sequence, and a step without a graph is slow",
        how="long-prefill-token-threshold is max-num-batched-tokens - max-num-seqs x (1 + drafts), and the largest "
        "captured size is max-num-seqs x (1 + drafts); computed again, not as the recipe does",
        fix="leave them out of the recipe: they follow",
        place="recipes/*.toml",
        judge=each_shape(_derived),
        over="shapes",
    ),
    Check(
        id="deploy.ready",
        severity="error",
        what="when a service counts as started makes sense",
        why="a deploy waits for this path this long, and calls everything else a failure",
        how="service.ready.path; service.ready.timeout, up to a day, and longer than the guard waits for the container",
        fix="write ready = { path, timeout } as in /v1/models and 3600",
        place="recipes/*.toml",
        judge=each_shape(_ready),
        over="shapes",
    ),
    Check(
        id="deploy.ports",
        severity="error",
        what="ports lie below those that the kernel gives out",
        why="a connection of any program may hold a port of that range when the service wants it",
        how=f"service.port and service.master-port, from {_PRIVILEGED} to {EPHEMERAL_FROM - 1}: the range of a site "
        f"begins at {EPHEMERAL_FROM}; the machines are not asked",
        fix="take another port",
        place="recipes/*.toml",
        judge=each_shape(_ports),
        over="shapes",
    ),
    Check(
        id="deploy.branch",
        severity="error",
        what="the branch that deploys are restricted to is there",
        why="a branch that is spelled otherwise restricts deploys to nothing",
        how="promotion.branch, where a shape has one, against git's local and remote branches",
        fix="correct promotion.branch, or fetch",
        place="recipes/*.toml",
        judge=each_shape(_branch),
        over="shapes",
    ),
    Check(
        id="model.pinned",
        severity="warn",
        what="the checkpoint that is served is pinned",
        why="without a revision nobody can say which weights answer: releases and deploys refuse",
        how="the revision in the lock that model.set and model.huggingface name; weights are not looked at",
        fix="name the revision in the set's wish, and run: derive lock",
        place="recipes/*.toml lock/",
        judge=each_shape(_model),
        over="shapes",
    ),
)
