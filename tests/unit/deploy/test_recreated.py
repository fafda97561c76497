# SPDX-License-Identifier: Apache-2.0
"""A container whose arguments are as they were is started anew where a file that is mounted into it has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from derive.deploy.conduct import is_served
from derive.deploy.consents import Consent, Qualified, needed, running
from derive.deploy.model import Target
from derive.deploy.observe import drift
from derive.deploy.recovery import judge
from support.deploying import container_of, serving, state, target
from support.launching import project_files, project_shape, rendered

OLD = target()
NODES = tuple(launch.node for launch in OLD.bundle.launches)
MOUNTED = "await-guard"
"""A file of the launch folder, which is mounted as a whole."""


@pytest.fixture(scope="module")
def edited() -> Target:
    """The same release, but for the text of a mounted file."""
    name = f"render/{MOUNTED}.j2"
    files = {**project_files(), name: project_files()[name] + b"# as edited\n"}
    bundle = rendered(project_shape("probe", "triangle"), OLD.bundle.site, files)
    return Target(served=replace(OLD.served, launch_bundle=bundle.launch), bundle=bundle)


def test_l5_what_the_container_is_told_is_the_same_but_for_the_labels_of_its_bundle(edited: Target) -> None:
    old, new = OLD.bundle.launches[0], edited.bundle.launches[0]
    assert (old.entrypoint, old.arguments, old.environment, old.mounts) == (
        new.entrypoint,
        new.arguments,
        new.environment,
        new.mounts,
    )
    assert OLD.bundle.node(NODES[0])[MOUNTED] != edited.bundle.node(NODES[0])[MOUNTED]
    fields = [one.field for one in drift(new, container_of(old), {old.image})]
    assert fields == ["labels.io.derive.launch-bundle", "labels.io.derive.shape-bundle"]


def test_l5_such_a_launch_does_not_count_as_running_and_ends_what_runs(edited: Target) -> None:
    states = dict.fromkeys(NODES, state(wanted=OLD.served, current=OLD.served, healthy=(OLD.served,)))
    situation = judge(states, serving(OLD), service="probe")
    assert is_served(OLD, situation)
    assert not is_served(edited, situation)
    found = running(edited, serving(OLD), dict.fromkeys(NODES, (OLD.served,)))
    (one,) = needed(edited, found, None, Qualified(promoted=True))
    assert one.consent is Consent.REPLACE
