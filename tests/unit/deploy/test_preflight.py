# SPDX-License-Identifier: Apache-2.0
"""Machines that are as they should be have no finding; each thing that is not is one, with its node and a next step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from derive.deploy.machine import MEMORY_SAVER, PACKING, Machine, Module, MountSeen, Neighbour
from derive.deploy.model import Container, Target
from derive.deploy.preflight import Finding, judge, wanted
from derive.fabric.facts import NodeFacts
from support.deploying import ENGINE, GIB, container_of, machines, serving, site_of, target

PROBE = target()
MODEL = target("ds41f", "tp3-triangle")
NODES = tuple(node.name for node in PROBE.bundle.site.nodes)
SECOND = NODES[1]
NOTHING: Mapping[str, Any] = dict.fromkeys(NODES, ())


def judged(of: Target, found: Mapping[str, Machine] | None = None, **more: Any) -> tuple[Finding, ...]:
    """Judge machines of a site on which nothing runs."""
    return judge(of, site_of(of), machines(of) if found is None else found, more.pop("containers", NOTHING), **more)


def second(of: Target, **changes: Any) -> dict[str, Machine]:
    """Return the machines of a site, the second one with changes."""
    found = machines(of)
    return {**found, SECOND: replace(found[SECOND], **changes)}


def engine(**changes: Any) -> dict[str, Any]:
    return {"engine": replace(ENGINE, **changes)}


def network(change: Callable[[NodeFacts], NodeFacts]) -> dict[str, Any]:
    facts = machines(MODEL)[SECOND].network
    assert facts is not None
    return {"network": change(facts)}


def module(**changes: Any) -> dict[str, Any]:
    """Return the modules of the second machine, the memory saver with changes."""
    found = machines(MODEL)[SECOND].modules
    return {"modules": {**found, MEMORY_SAVER: replace(found[MEMORY_SAVER], **changes)}}


def without_interface(facts: NodeFacts) -> NodeFacts:
    return replace(facts, interfaces=tuple(one for one in facts.interfaces if one.name != "enp1s0f0np0"))


def with_interface(**changes: Any) -> Callable[[NodeFacts], NodeFacts]:
    def change(facts: NodeFacts) -> NodeFacts:
        interfaces = (replace(one, **changes) if one.name == "enp1s0f0np0" else one for one in facts.interfaces)
        return replace(facts, interfaces=tuple(interfaces))

    return change


def older_gids(facts: NodeFacts) -> NodeFacts:
    first, *others = facts.devices
    gids = tuple(replace(one, type="IB/RoCE v1") for one in first.gids)
    return replace(facts, devices=(replace(first, gids=gids), *others))


@pytest.mark.parametrize("of", [PROBE, MODEL], ids=["probe", "ds41f"])
def test_machines_that_are_as_they_should_be_have_no_finding(of: Target) -> None:
    assert judged(of) == ()


BROKEN: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "the kernel": ("host.kernel", {"kernel": "6.1.0"}),
    "the page size": ("host.page-size", {"page_size": 4096}),
    "the driver": ("host.driver", {"driver": "570.1"}),
    "no driver": ("host.driver", {"driver": None}),
    "huge pages": ("host.transparent-huge-pages", {"transparent_huge_pages": "always"}),
    "min_free_kbytes": ("host.min-free-kbytes", {"min_free_kbytes": 67584}),
    "the amount of swap": ("host.swap", {"swap": {"/swap-64k.img": 8 * GIB}}),
    "where swap is": ("host.swap-file", {"swap": {"/swap.img": 16 * GIB - 65536}}),
    "no memory saver": ("host.memory-saver", {"modules": {"nvidia": machines(MODEL)[SECOND].modules["nvidia"]}}),
    "a memory saver that does nothing": ("host.memory-saver", module(parameters={PACKING: "N"})),
    "a module that is not the memory saver's": ("host.memory-saver", module(parameters={"uvm_disable_hmm": "N"})),
    "the memory saver's module": ("host.memory-saver-srcversion", module(srcversion="A" * 23)),
    "the kind of machine": ("host.platform", {"architecture": "x86_64"}),
    "python": ("host.python", {"python": (3, 7, 9)}),
    "systemd": ("host.systemd", {"systemd": 245}),
    "sudo": ("host.sudo", {"sudo": False}),
    "the clock": ("host.clock", {"clock_ns": 0}),
    "a machine that is too small": ("host.memory", {"memory_total": 4 * GIB}),
    "memory that others have": ("host.available", {"memory_available": 4 * GIB}),
    "memory that cannot be read": ("host.memory", {"memory_total": None}),
    "no engine": ("engine.answers", {"engine": None}),
    "an old engine": ("engine.version", engine(version="19.03.12")),
    "no NVIDIA runtime": ("engine.nvidia", engine(runtimes=frozenset({"runc"}))),
    "the engine's cgroup driver": ("engine.cgroup-driver", engine(cgroup_driver="cgroupfs")),
    "limits that do not hold": ("engine.memory-limit", engine(warnings=("WARNING: No memory limit support",))),
    "a network that cannot be read": ("site.node", {"network": None}),
    "no such interface": ("site.interface", network(without_interface)),
    "an interface's address": ("site.address", network(with_interface(addresses=("169.254.3.4/16",)))),
    "an interface's MTU": ("site.mtu", network(with_interface(mtu=1500))),
    "a cable that is out": ("site.carrier", network(with_interface(carrier=False))),
    "GIDs of an older type": ("site.gid", network(older_gids)),
    "a full disk": (
        "disk.space",
        {"disks": {key: replace(one, free_bytes=1 << 20) for key, one in machines(MODEL)[SECOND].disks.items()}},
    ),
    "a port that is taken": ("port.free", {"listening": frozenset({8000})}),
    "a former guard": ("guard.former", {"units": {"ds41f-memguard.service": "active"}}),
}


@pytest.mark.parametrize("what", BROKEN)
def test_each_thing_that_is_wrong_is_found_with_its_node_and_a_next_step(what: str) -> None:
    check, changes = BROKEN[what]
    found = judged(MODEL, second(MODEL, **changes))
    mine = [one for one in found if one.id == check]
    assert mine, found
    assert {one.node for one in mine} == {SECOND}
    assert all(one.fix for one in mine)
    # Whatever else is found follows from it: machines that are not alike.
    assert {one.id for one in found} <= {check, "alike.platform", "alike.driver", "alike.srcversions"}


WARNINGS = {"host.clock", "engine.memory-limit"}


def test_only_what_harms_nothing_is_a_warning() -> None:
    for check, changes in BROKEN.values():
        severities = {one.severity for one in judged(MODEL, second(MODEL, **changes)) if one.id == check}
        assert severities == {"warn" if check in WARNINGS else "error"}, check


def asking(**changes: Any) -> Target:
    """Return the model's launch with other wishes of the machine."""
    resolved = MODEL.bundle.resolved
    return replace(
        MODEL, bundle=replace(MODEL.bundle, resolved=replace(resolved, host=replace(resolved.host, **changes)))
    )


def test_a_memory_saver_that_must_not_be_is_found_and_the_stock_module_is_none() -> None:
    of = asking(memory_saver=False, memory_saver_version=None, memory_saver_srcversion=None)
    stock = machines(of)
    assert judged(of, stock) == ()
    patched = replace(stock[SECOND].modules[MEMORY_SAVER], parameters={PACKING: "N"})
    (found,) = judged(of, second(of, modules={**stock[SECOND].modules, MEMORY_SAVER: patched}))
    assert (found.node, found.id, found.severity) == (SECOND, "host.memory-saver", "error")


def test_a_memory_saver_whose_version_alone_is_asked_for_is_said_not_to_be_known() -> None:
    of = asking(memory_saver_srcversion=None)
    assert {(one.node, one.id, one.severity) for one in judged(of)} == {
        (node, "host.memory-saver-version", "warn") for node in NODES
    }


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("kernel", "6.1.0"), ("page_size", 65536), ("driver", "570.1"), ("transparent_huge_pages", "never")],
)
def test_machines_that_the_recipe_says_nothing_of_must_be_alike(attribute: str, value: object) -> None:
    (found,) = judged(PROBE, second(PROBE, **{attribute: value}))
    assert (found.node, found.severity, found.id[:6]) == ("", "error", "alike.")
    assert [line.rpartition("  ")[2] for line in found.detail] == [f"{NODES[0]}, {NODES[2]}", SECOND]


def test_modules_of_another_build_are_not_alike() -> None:
    modules = {"nvidia": Module(name="nvidia", version="1", srcversion="B" * 23, parameters={})}
    (found,) = judged(PROBE, second(PROBE, modules=modules))
    assert found.id == "alike.srcversions"


def test_a_machine_of_which_nothing_is_known_is_no_pass() -> None:
    found = machines(PROBE)
    del found[SECOND]
    (one,) = judged(PROBE, found)
    assert (one.node, one.id, one.severity) == (SECOND, "host.facts", "error")


def test_errors_come_first_then_nodes_by_rank() -> None:
    found = machines(MODEL, sudo=False)
    found[NODES[0]] = replace(found[NODES[0]], clock_ns=0)
    said = [(one.id, one.node) for one in judged(MODEL, found)]
    assert said == [*(("host.sudo", name) for name in NODES), ("host.clock", NODES[0])]


def gone(source: str) -> MountSeen:
    return MountSeen(source=source, kind=None, readable=False, writable=False, reason="no such file or directory")


def test_a_source_of_a_mount_that_is_not_there_is_found_but_not_what_the_deploy_makes() -> None:
    before = machines(MODEL)[SECOND].mounts
    found = judged(MODEL, second(MODEL, mounts={source: gone(source) for source in before}))
    own = MODEL.bundle.site.folder + "/"
    sources = [one.source for one in MODEL.bundle.launches[1].mounts if not one.source.startswith(own)]
    assert sources
    assert [one.message.partition(" ")[0] for one in found if one.id == "mount.there"] == sources
    assert [one.message for one in found if one.id == "mount.device"] == ["there is no /dev/infiniband"]


def test_a_mount_that_may_not_be_read_is_found() -> None:
    before = machines(MODEL)[SECOND].mounts
    found = judged(MODEL, second(MODEL, mounts={key: replace(one, readable=False) for key, one in before.items()}))
    assert {one.id for one in found} == {"mount.rights"}


def test_what_runs_and_is_replaced_may_have_the_port_and_the_memory() -> None:
    found = machines(MODEL, listening=frozenset({8000, 9999}), memory_available=GIB)
    assert judged(MODEL, found, containers=serving(MODEL)) == ()
    assert {one.id for one in judged(MODEL, found)} == {"port.free", "host.available"}


def theirs(name: str = "notebook", **host: Any) -> Container:
    """Return a container that no deploy started, with nothing of what the launch wants."""
    return container_of(MODEL.bundle.launches[0], name=name, labels={}, entrypoint=(), arguments=("serve",), host=host)


def adopted(container: Container, **changes: Any) -> set[str]:
    """Judge machines of which the second runs a container that is asked for by name."""
    containers = {**NOTHING, SECOND: (container,)}
    return {
        one.id for one in judged(MODEL, second(MODEL, **changes), containers=containers, others={SECOND: {"notebook"}})
    }


def test_what_is_asked_for_by_name_may_have_the_port_by_the_machines_network_and_the_memory() -> None:
    taken = {"listening": frozenset({8000}), "memory_available": GIB}
    assert adopted(theirs(NetworkMode="host"), **taken) == set()
    found = judged(MODEL, second(MODEL, **taken), containers={**NOTHING, SECOND: (theirs(NetworkMode="host"),)})
    assert {one.id for one in found} == {"port.free", "host.available"}


def test_a_container_that_ends_may_have_the_ports_that_it_publishes_and_no_others() -> None:
    bindings = {"8000/tcp": [{"HostIp": "", "HostPort": "8000"}]}
    assert adopted(theirs(NetworkMode="bridge", PortBindings=bindings), listening=frozenset({8000})) == set()
    assert adopted(theirs(NetworkMode="bridge"), listening=frozenset({8000})) == {"port.free"}
    found = judged(
        MODEL,
        machines(MODEL, listening=frozenset({8000, 9999})),
        containers=dict.fromkeys(NODES, (theirs(NetworkMode="bridge", PortBindings=bindings),)),
    )
    assert [(one.node, one.message) for one in found] == [(NODES[0], "something listens on the port 9999")]


def test_a_container_that_has_ended_has_no_port_and_no_memory() -> None:
    ended = replace(theirs(NetworkMode="host"), state="exited")
    assert adopted(ended, listening=frozenset({8000}), memory_available=GIB) == {"port.free", "host.available"}


@pytest.mark.parametrize("state", ["running", "paused", "restarting"])
def test_a_container_that_is_gone_once_it_has_stopped_cannot_be_kept_aside(state: str) -> None:
    passing = replace(theirs(AutoRemove=True), state=state)
    containers = {**NOTHING, SECOND: (passing,)}
    (found,) = judged(MODEL, containers=containers, others={SECOND: {"notebook"}})
    assert (found.node, found.id, found.severity) == (SECOND, "container.kept", "error")
    assert found.message == "notebook cannot be kept: it was started with --rm, and is gone once it has stopped"
    assert found.fix == "start it again without --rm, or end it by hand first: docker stop notebook"
    # Nothing ends yet, or it stays.
    assert judged(MODEL, containers=containers, others={SECOND: {"notebook"}}, only_ahead=True) == ()
    assert judged(MODEL, containers=containers) == ()


def test_what_is_kept_when_it_stops_or_does_not_run_or_is_a_services_may_end() -> None:
    assert adopted(theirs(AutoRemove=False)) == set()
    assert adopted(replace(theirs(AutoRemove=True), state="created")) == set()
    assert adopted(replace(theirs(AutoRemove=True), labels=MODEL.bundle.launches[0].labels)) == set()


def test_of_stored_facts_nothing_is_judged_that_changes_from_minute_to_minute() -> None:
    found = machines(MODEL, listening=frozenset({8000}), memory_available=GIB)
    assert judged(MODEL, found, containers={}) == ()


def test_a_former_guard_with_its_container_is_left_to_the_deploy() -> None:
    found = machines(PROBE, units={"probe-memguard.service": "active"})
    theirs = container_of(PROBE.bundle.launches[0], labels={})
    assert judged(PROBE, found, containers=dict.fromkeys(NODES, (theirs,))) == ()


def test_an_image_that_comes_needs_room_where_the_engine_keeps_images() -> None:
    disks = machines(PROBE)[SECOND].disks
    apart = {key: replace(one, device=index, free_bytes=GIB) for index, (key, one) in enumerate(disks.items())}
    assert judged(PROBE, second(PROBE, disks=apart), moves=dict.fromkeys(NODES, 0)) == ()
    (found,) = judged(PROBE, second(PROBE, disks=apart), moves=dict.fromkeys(NODES, GIB))
    assert (found.node, found.message) == (SECOND, "too little room below /var/lib/docker")


def test_a_cable_that_leads_elsewhere_is_found_by_what_its_neighbours_say() -> None:
    site = PROBE.bundle.site
    _, _, here, there = site.paths_of(1)[0]
    right = Neighbour(interface=here.interface, host=site.nodes[there.rank].name, port=there.interface)
    assert judged(PROBE, second(PROBE, neighbours=(right,))) == ()
    assert judged(PROBE, second(PROBE, neighbours=(replace(right, port=None),))) == ()
    assert judged(PROBE, second(PROBE, neighbours=(replace(right, port="02:00:00:00:00:01"),))) == ()
    (found,) = judged(PROBE, second(PROBE, neighbours=(replace(right, port="enp9s0"),)))
    assert (found.id, found.detail[1]) == ("site.cable", f"got       {right.host} enp9s0")


def test_a_neighbour_may_go_by_the_name_that_its_machine_calls_itself() -> None:
    site = PROBE.bundle.site
    _, _, here, there = site.paths_of(1)[0]
    called = Neighbour(interface=here.interface, host="spark-1a2b", port=there.interface)
    seen = second(PROBE, neighbours=(called,))
    (found,) = judged(PROBE, seen)
    assert found.id == "site.cable"
    name = site.nodes[there.rank].name
    assert judged(PROBE, {**seen, name: replace(seen[name], host="spark-1a2b")}) == ()


def test_an_engine_without_the_runtime_may_give_gpus_as_devices() -> None:
    changes = engine(runtimes=frozenset({"runc"}), devices=frozenset({"nvidia.com/gpu=all"}))
    assert judged(MODEL, second(MODEL, **changes)) == ()


def test_a_node_without_systemd_is_guarded_otherwise() -> None:
    assert judged(PROBE, second(PROBE, systemd=None, **engine(cgroup_driver="cgroupfs"))) == ()


def test_everything_that_is_judged_is_asked_for() -> None:
    asked = wanted(MODEL, 0)
    launch = MODEL.bundle.launches[0]
    assert asked.disks[0] == MODEL.bundle.site.folder
    assert {one.source for one in launch.mounts} <= set(asked.paths)
    assert "/dev/infiniband" in asked.paths
    assert asked.ports == (8000, 9999)
    assert wanted(MODEL, 1).ports == (8000,)
    assert asked.units == ("ds41f-memguard.service",)
    assert MEMORY_SAVER in asked.modules


def test_a_finding_of_the_network_names_its_place_in_the_sites_file_and_the_node_once() -> None:
    (found,) = judged(MODEL, second(MODEL, **network(with_interface(carrier=False))))
    assert (found.node, found.message) == (SECOND, "enp1s0f0np0 has no carrier")
    assert found.detail[0].startswith("says so   site.toml: cables[")
