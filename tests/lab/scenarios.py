# SPDX-License-Identifier: Apache-2.0
"""The list of what goes wrong with a site, and at which cablings it is tried.

On the triangle and the ring one node has the containerd store and another no systemd, so that each scenario goes
through all kinds of nodes.

Core: no IO of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lab import asking, breaking, cutting, deploying
from lab.places import Cabling
from lab.scene import Facts, Scene


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something that happens at a site of some cablings; it returns what is worth recording."""

    name: str
    run: Callable[[Scene], Facts]
    cablings: tuple[Cabling, ...] = ("triangle",)

    @property
    def says(self) -> str:
        """What it holds, in a sentence."""
        return (self.run.__doc__ or "").partition("\n")[0]


_BOTH: Final[tuple[Cabling, ...]] = ("triangle", "ring4")
SCENARIOS: Final = (
    Scenario("deploy-and-rollback", deploying.deploy_and_rollback, _BOTH),
    Scenario("plan-changes-nothing", deploying.plan_changes_nothing, _BOTH),
    Scenario("failed-start", deploying.failed_start, _BOTH),
    Scenario("interrupted", deploying.interrupted),
    Scenario("drifted", deploying.drifted),
    Scenario("stopped", deploying.stopped),
    Scenario("one-rank-dies", deploying.one_rank_dies, _BOTH),
    Scenario("two-operators", deploying.two_operators),
    Scenario("cable-cut", breaking.cable_cut, _BOTH),
    Scenario("disk-full", breaking.disk_full),
    Scenario("disk-full-before-the-image", breaking.disk_full_before_the_image),
    Scenario("starved-when-steady", breaking.starved_when_steady),
    Scenario("starved-at-start", breaking.starved_at_start),
    Scenario("confirmation-lost", cutting.confirmation_lost),
    Scenario("ssh-hangs", cutting.ssh_hangs),
    Scenario("ssh-lost", cutting.ssh_lost),
    Scenario("killed-at-each-step", cutting.killed_at_each_step),
    Scenario("migration-killed", cutting.migration_killed),
    Scenario("stopped-before-it-was-killed", cutting.stopped_before_it_was_killed),
    Scenario("former-image-gone", cutting.former_image_gone),
    Scenario("node-lost-in-deploy", breaking.node_lost_in_deploy, _BOTH),
    Scenario("head-lost-in-deploy", breaking.head_lost_in_deploy, _BOTH),
    Scenario("node-lost", breaking.node_lost, _BOTH),
    Scenario("old-names-adopted", deploying.old_names_adopted),
    Scenario("brought-ahead", asking.brought_ahead),
    Scenario("why-not", asking.why_not),
    Scenario("watched", asking.watched),
    Scenario("restarted", asking.restarted),
    Scenario("old-container-stopped", asking.old_container_stopped),
    Scenario("other-name-adopted", asking.other_name_adopted),
    Scenario("put-aside-for-good", asking.put_aside_for_good),
)
