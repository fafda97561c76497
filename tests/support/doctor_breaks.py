# SPDX-License-Identifier: Apache-2.0
"""One way to break each check of the doctor, starting from a sound project.

Edge: reads the files of ``fabric/`` of this checkout, by way of the sound project.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from derive.doctor.case import Case, case_of
from derive.doctor.model import GitFacts, SecretFact
from derive.errors import Problem
from derive.fabric.site import Cable, Node, Path, Site
from derive.fabric.transports import Fabric
from derive.lock.upstreams.entries import GitEntry, HuggingFaceEntry, UpstreamsLock
from derive.recipes.resolved import GuardPhase, Need, Resolved
from support.doctoring import (
    COMMIT,
    IMAGE,
    RECIPE,
    SCHEMA,
    SITE,
    UPSTREAMS_WISH,
    facts,
    record,
    schema,
    sound,
    upstreams,
)
from support.projects import FILES, pinned

Break = Callable[[], Case]


def files(default_image: str = "image", **changes: str | bytes | None) -> Break:
    """Break files; of keyword names, ``__`` is a slash and ``_`` a dot."""
    paths = {name.replace("__", "/").replace("_", "."): data for name, data in changes.items()}
    return lambda: case_of(facts(paths, default_image=default_image))


def told(**changes: Any) -> Break:
    """Break facts that are no files."""
    return lambda: case_of(replace(facts(), **changes))


def recipe(old: str, new: str) -> Break:
    """Break the recipe."""
    assert old in RECIPE
    return files(recipes__small_toml=RECIPE.replace(old, new))


def shape(change: Callable[[Resolved], Resolved]) -> Break:
    """Break a shape after it was resolved: what recipes are refused for already."""

    def broken() -> Case:
        case = sound()
        return replace(case, recipes=replace(case.recipes, shapes=tuple(map(change, case.recipes.shapes))))

    return broken


def site(old: str, new: str, **changes: Any) -> Break:
    """Break the site's file, or what is known of it."""
    assert old in SITE
    data = SITE.replace(old, new).encode()

    def broken() -> Case:
        before = facts()
        assert before.site is not None
        return case_of(replace(before, site=replace(before.site, data=data, **changes)))

    return broken


def git(**changes: Any) -> Break:
    """Break what git says."""

    def broken() -> Case:
        before = facts()
        assert isinstance(before.git, GitFacts)
        return case_of(replace(before, git=replace(before.git, **changes)))

    return broken


def tracking(path: str) -> Break:
    """Let git have one more file."""

    def broken() -> Case:
        before = facts()
        assert isinstance(before.git, GitFacts)
        return case_of(replace(before, git=replace(before.git, tracked=before.git.tracked | {path})))

    return broken


def arguments(name: str, value: Any) -> Break:
    return shape(lambda one: replace(one, arguments={**one.arguments, name: value}))


def guard(phase: str, **changes: Any) -> Break:
    def changed(one: GuardPhase) -> GuardPhase:
        return replace(one, **changes) if one.phase == phase else one

    return shape(lambda one: replace(one, guard=tuple(map(changed, one.guard))))


def _capability(name: str) -> str:
    return f'{name} = {{ from = "script", doc = "collectives" }}\n'


def promotion(**changes: Any) -> Break:
    return shape(lambda one: replace(one, promotion=replace(one.promotion, **changes)))


def unmeasured(**changes: Any) -> Break:
    """Change what a shape is, and with it that there is a benchmark of it."""
    return shape(lambda one: replace(one, model=None, promotion=replace(one.promotion, benchmark=None), **changes))


def needs(capability: str) -> Break:
    return shape(lambda one: replace(one, needs=(*one.needs, Need(capability=capability, because="a test"))))


def variable(name: str, value: str | None) -> Break:
    """Set a variable of the shape, or (None) remove it."""

    def changed(one: Resolved) -> Resolved:
        others = {key: text for key, text in one.environment.items() if key != name}
        return replace(one, environment=others if value is None else {**others, name: value})

    return shape(changed)


def without_argument(name: str) -> Break:
    return shape(
        lambda one: replace(one, arguments={key: value for key, value in one.arguments.items() if key != name})
    )


def placed(change: Callable[[Site], Site], break_fabric: Callable[[Fabric], Fabric] = lambda one: one) -> Break:
    """Break the site after it was read: what sites are refused for already."""

    def broken() -> Case:
        case = sound()
        site, fabric = case.places.site, case.places.fabric
        assert site is not None
        assert fabric is not None
        changed = replace(site, site=change(site.site))
        return replace(case, places=replace(case.places, site=changed, fabric=break_fabric(fabric)))

    return broken


def node(index: int, **changes: Any) -> Break:
    def changed(one: Site) -> Site:
        nodes = [replace(each, **changes) if at == index else each for at, each in enumerate(one.nodes)]
        return replace(one, nodes=tuple(nodes))

    return placed(changed)


def with_cable(change: Callable[[Cable], Cable]) -> Callable[[Site], Site]:
    return lambda one: replace(one, cables=(change(one.cables[0]), *one.cables[1:]))


def with_end(**changes: Any) -> Callable[[Site], Site]:
    """Change the first end of the first path of the first cable."""

    def changed(one: Path) -> Path:
        return replace(one, ends=(replace(one.ends[0], **changes), one.ends[1]))

    return with_cable(lambda cable: replace(cable, paths=(changed(cable.paths[0]), *cable.paths[1:])))


_ONE_PATH = with_cable(lambda cable: replace(cable, paths=cable.paths[:1]))


def _transport(**changes: Any) -> Callable[[Fabric], Fabric]:
    def changed(one: Fabric) -> Fabric:
        return replace(one, transports={**one.transports, "nccl-ring": replace(one.transports["nccl-ring"], **changes)})

    return changed


def transport(**changes: Any) -> Break:
    """Change what the shape's transport is."""
    return placed(lambda one: one, _transport(**changes))


def backend(**changes: Any) -> Break:
    """Change what the shape's kernel backend is."""

    def changed(one: Fabric) -> Fabric:
        return replace(one, kernel_backends={"b12x": replace(one.kernel_backends["b12x"], **changes)})

    return placed(lambda one: one, changed)


def _library(lock: UpstreamsLock) -> GitEntry:
    entry = lock.upstreams[0]
    assert isinstance(entry, GitEntry)
    return entry


def _unnamed_revision() -> Case:
    case = sound()
    lock = upstreams(UPSTREAMS_WISH)
    library = replace(_library(lock), commit="main")
    locks = {**case.content.locks, "m": replace(lock, upstreams=(library,))}
    return replace(case, content=replace(case.content, locks=locks))


def _fifth(one: Site) -> Site:
    return replace(
        one,
        nodes=(*one.nodes, Node(name="e", rank=4, address="192.0.2.9", interface="eth0", ssh_host="e", gid_index="3")),
    )


def _cabled_otherwise() -> Case:
    case = sound()
    examples = {"ring4": case.places.examples["triangle"]}
    places = replace(case.places, site=None, examples=examples)
    return replace(case, facts=replace(case.facts, site=None), places=places)


_ATTENTION = "FLASHINFER_MLA_SPARSE_DSV41"
_UNPINNED_LIBRARY = UPSTREAMS_WISH.replace('licence = "MIT"\n', 'licence = "MIT"\nunpinned = "no network"\n', 1)
_UNPINNED_MODEL = UPSTREAMS_WISH.replace(
    f'revision = "{COMMIT}"\nlicence = "MIT"', 'unpinned = "nobody knows"\nlicence = "MIT"'
)


def _unpinned_library() -> bytes:
    lock = upstreams(_UNPINNED_LIBRARY)
    library = replace(_library(lock), unpinned="no network", pin=None)
    return pinned(replace(lock, upstreams=(library, *lock.upstreams[1:])), _UNPINNED_LIBRARY)


def _unpinned_model() -> bytes:
    lock = upstreams(_UNPINNED_MODEL)
    model = lock.upstreams[1]
    assert isinstance(model, HuggingFaceEntry)
    model = replace(model, unpinned="nobody knows", files=None, revision=None, version="unpinned")
    return pinned(replace(lock, upstreams=(lock.upstreams[0], model)), _UNPINNED_MODEL)


def _measured(**changes: object) -> bytes:
    return record("benchmark", "small", {"nodes": 4, "transport": "nccl-ring", "kernel_backend": "b12x", **changes})


BREAKS: Mapping[str, Break] = {
    "project.settings": files(default_image="other"),
    "project.content": told(reading=(Problem(where="lock/link.toml", message="a link"),)),
    "project.tracked": git(tracked=frozenset()),
    "sources.locks": files(lock__w_toml=str(FILES["lock/w.toml"]).replace('["a"]', '["b"]')),
    "sources.series": files(patches__b__0002_patch=FILES["patches/b/0001-a.patch"]),
    "sources.declared": files(
        derivations__d_toml=str(FILES["derivations/d.toml"]).replace('series = "b"', 'series = "c"')
    ),
    "sources.revisions": _unnamed_revision,
    "sources.pinned": lambda: case_of(
        facts({"lock/m.toml": _UNPINNED_LIBRARY, "lock/m.lock.json": _unpinned_library()})
    ),
    "sources.watched": lambda: case_of(
        facts({"lock/m.lock.json": pinned(upstreams(UPSTREAMS_WISH, watched=()), UPSTREAMS_WISH)})
    ),
    "secrets.names": tracking("deploy/id_ed25519"),
    "secrets.contents": git(secrets=(SecretFact(path="a", line=3, kind="private key"),)),
    "recipe.loads": recipe('tuning = "tp4"\n', 'tuning = "tp4"\ncolour = "blue"\n'),
    "recipe.derived": arguments("max-cudagraph-capture-size", 3),
    "model.pinned": lambda: case_of(facts({"lock/m.toml": _UNPINNED_MODEL, "lock/m.lock.json": _unpinned_model()})),
    "baseline.same": files(records__benchmarks__small_json=_measured(shape="square")),
    "benchmark.reference": files(records__benchmarks__small_json=_measured(nodes=3)),
    "benchmark.recorded": files(records__benchmarks__small_json=record("benchmark", "small", {"nodes": 4})),
    "deploy.ready": recipe("timeout = 600", "timeout = 60"),
    "deploy.ports": recipe("port = 8000", "port = 18080"),
    "deploy.branch": recipe('branch = "main"', 'branch = "mian"'),
    "guard.phases": shape(lambda one: replace(one, guard=one.guard[:1])),
    "guard.floors": guard("startup", floor_bytes=3 << 30),
    "guard.sizes": guard("steady", floor_bytes=1000),
    "guard.intervals": guard("steady", interval="120"),
    "guard.room": guard("startup", floor_bytes=120 << 30),
    "guard.program": files(images__image_toml=IMAGE.replace("memory-guard = ", "memory-gard = ")),
    "image.capabilities": files(images__image_toml=IMAGE.replace("moe-b12x = ", "moe-b13x = ")),
    "image.other-transport-capability": files(images__image_toml=IMAGE + _capability("oneshot-ring4")),
    "image.platform": shape(lambda one: replace(one, platform="linux/riscv64")),
    "image.arguments": variable("NCCL_ALGORITHM", "Ring"),
    "artifact.schema": lambda: case_of(facts({SCHEMA: schema("0" * 64)})),
    "artifact.verified": files(
        records__verify__image_json=record("verify", "image", {"licences": {"MIT": ["wheel gone"]}, "exceptions": []})
    ),
    "memory.fits": recipe("kv-cache-memory-bytes = 1073741824", "kv-cache-memory-bytes = 107374182400"),
    "site.loads": site('home = "/home/operator"\n', ""),
    "site.outside": site("", "", inside="sites/lab.toml", tracked=False, ignored=False),
    "site.private": site("", "", mode=0o644),
    "site.shapes": site('small = "four"', 'small = "for"'),
    "site.examples": files(fabric__examples__triangle_toml="format = 1\n"),
    "fabric.readable": files(fabric__settings_toml="format = 2\n"),
    "fabric.node-count": placed(_fifth),
    "fabric.ranks": node(1, rank=3),
    "fabric.names-distinct": node(1, name="a"),
    "fabric.management-addresses": node(1, address="192.0.2.1"),
    "fabric.ssh-hosts": node(1, ssh_host="a"),
    "fabric.peers": placed(lambda one: replace(one, cables=one.cables[1:])),
    "fabric.stripes": placed(with_cable(lambda cable: replace(cable, paths=()))),
    "fabric.ports": placed(with_cable(lambda cable: replace(cable, ports=(1, cable.ports[1])))),
    "fabric.device-one-peer": placed(with_end(device="roceP2p1s0f0")),
    "fabric.interface-one-path": placed(with_end(interface="enP2p1s0f0np0")),
    "fabric.subnets": placed(
        with_cable(lambda cable: replace(cable, paths=(replace(cable.paths[0], subnet="10.12.1.0/25"), cable.paths[1])))
    ),
    "fabric.addresses": placed(with_end(address="10.99.1.1")),
    "fabric.cabling": _cabled_otherwise,
    "fabric.nodes": unmeasured(nodes=3),
    "fabric.transport": unmeasured(transport="carrier-pigeon"),
    "fabric.transport-cabling": transport(cablings=("triangle",)),
    "fabric.collectives": transport(collectives=False),
    "fabric.common-stripes": placed(_ONE_PATH, _transport(engine="oneshot")),
    "fabric.stripes-needed": placed(_ONE_PATH, _transport(stripes=2)),
    "fabric.planned": transport(planned="nobody has built it"),
    "fabric.tp-equals-nodes": arguments("tensor-parallel-size", 3),
    "fabric.nnodes-equals-nodes": arguments("nnodes", 3),
    "fabric.draft-tp-equals-nodes": arguments(
        "speculative-config", {"draft_tensor_parallel_size": 3, "attention_backend": _ATTENTION}
    ),
    "fabric.expert-parallel": arguments("enable-expert-parallel", value=True),
    "fabric.other-parallelism": arguments("pipeline-parallel-size", 2),
    "fabric.custom-all-reduce": without_argument("disable-custom-all-reduce"),
    "fabric.transport-capability": transport(needs=("nccl", "more")),
    "fabric.other-transport-capability": needs("oneshot-direct"),
    "fabric.setting-capability": variable("NCCL_SWITCHLESS_BIDIRECTIONAL", "2"),
    "fabric.master-port": shape(lambda one: replace(one, master_port=one.port)),
    "fabric.required-settings": variable("NCCL_ALGO", None),
    "fabric.off-settings": variable("VLLM_ENABLE_ROCE_ALLREDUCE", "1"),
    "fabric.forbidden-settings": variable("NCCL_GRAPH_FILE", "/graph"),
    "fabric.channels": transport(channels={"ring4": (1,)}),
    "fabric.engine-variables": variable("SPARKNET_ROCE_SPIN_LIMIT", "1"),
    "fabric.tuned-settings": variable("NCCL_PROTO", "Simple"),
    "fabric.site-variables": variable("VLLM_HOST_IP", "192.0.2.1"),
    "fabric.kernel-arguments": arguments("linear-backend", "other"),
    "fabric.kernel-environment": backend(settings={"BACKEND": "b12x"}),
    "fabric.kernel-cache": backend(cache="KERNEL_CACHE"),
    "fabric.kernel-capability": backend(needs=("more",)),
}
