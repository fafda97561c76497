# SPDX-License-Identifier: Apache-2.0
"""One shape of a cluster file as the tables of a recipe: what it says, less what is the site's and what follows.

Core: no IO.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from derive.canonical import Json
from derive.errors import Problem, expected_got
from derive.fabric.site import Cabling
from derive.fabric.transports import Fabric
from derive.importing.account import Account
from derive.importing.argv import parse_arguments
from derive.importing.docker import KEY as DOCKER
from derive.importing.docker import DockerArguments, read_docker
from derive.importing.fields import Fields
from derive.importing.follows import Given, given_by, is_secret
from derive.importing.mounting import Mounted, Pin, place_mounts, read_mounts
from derive.importing.values import place_arguments, place_environment
from derive.importing.work import Work, set_at
from derive.words import binary_size, one_line

_CABLINGS: dict[int, Cabling] = {3: "triangle", 4: "ring4"}
_DEFAULT_TRANSPORT = "rocenante-direct"
_PORT = re.compile(r"[0-9]{1,5}")
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # noqa: S104 - read, never bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One shape, drafted: its tables, and beside them what the old file said, to hold the recipe against.

    ``said`` has every argument and variable as it stood; ``site`` what belongs to the site.
    """

    file: str
    name: str
    nodes: int
    cabling: Cabling
    tables: Mapping[str, Json]
    said_arguments: Mapping[str, Json]
    said_environment: Mapping[str, str]
    site: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the project knows: its checkpoints, its fabric, and which checkpoint a person named for all."""

    pins: tuple[Pin, ...]
    fabric: Fabric
    model: str | None = None


def draft(
    document: Mapping[str, Json], name: str | None, account: Account, known: Known
) -> tuple[Draft | None, list[Problem]]:
    """Draft one shape of a cluster file; ``name`` is its own, or one is made of what it is."""
    work = Work(fields=Fields(document, account.file), account=account, fabric=known.fabric)
    docker = read_docker(work.fields.texts(DOCKER), account)
    mounted = _mounts(work, docker, known)
    _service(work, docker)
    _host(work)
    _deployment(work)
    _transport(work)
    read = parse_arguments(work.fields.texts("serve_args"))
    nodes = _nodes(work, read.options)
    given = _given(work, nodes)
    place_arguments(work, read, mounted, given)
    environment = place_environment(work, docker, given)
    cabling = _CABLINGS.get(nodes)
    if cabling is None:
        return None, work.fields.problems
    work.tables["cabling"] = cabling
    account.close(document)
    return (
        Draft(
            file=account.file,
            name=name or _made_name(nodes, work.tables),
            nodes=nodes,
            cabling=cabling,
            tables=work.tables,
            said_arguments={name: value for name, value in read.options.items() if not is_secret(name, value)},
            said_environment=environment,
            site=work.site,
        ),
        work.fields.problems,
    )


def _mounts(work: Work, docker: DockerArguments, known: Known) -> Mounted:
    home = work.fields.text("host.home")
    if home is not None:
        work.site["home"] = home
        work.account.add("host.home", "site", "home")
    listed, problems = read_mounts(work.fields.get("container.mounts"), work.account.file)
    found = place_mounts([*listed, *docker.mounts], home, known.pins, known.model, work.account)
    work.fields.problems += problems + found.problems
    for key, table in (("model", found.model), ("cache", found.cache), ("mounts", found.mounts)):
        if table:
            work.tables[key] = table
    if found.models is not None and found.models != "{home}/.cache/huggingface/hub":
        work.site["models"] = found.models
    return found


def _service(work: Work, docker: DockerArguments) -> None:
    fields, account = work.fields, work.account
    work.put("container.name", "service.name", fields.text("container.name"))
    set_at(work.tables, "service.program", "vllm")
    if docker.entrypoint is not None:
        set_at(work.tables, "service.entrypoint", [docker.entrypoint])
    if docker.container:
        work.tables["container"] = docker.container
    for key, why in _DROPPED.items():
        if fields.get(key) is not None:
            account.dropped(key, why)
    url, timeout = fields.text("deployment.ready_url"), fields.whole("deployment.ready_timeout_seconds")
    if url is not None:
        _ready(work, url)
    work.put("deployment.ready_timeout_seconds", "service.ready.timeout", timeout)
    port = fields.text("distributed.master_port")
    if port is not None and not _PORT.fullmatch(port):
        fields.wrong("distributed.master_port", "not a port", "digits", port[:80])
    elif port is not None:
        work.put("distributed.master_port", "service.master-port", int(port))
    address = fields.text("distributed.master_addr")
    if address is not None:
        work.site["head"] = address
        account.add("distributed.master_addr", "site", "nodes[0].address")


def _ready(work: Work, url: str) -> None:
    key = "deployment.ready_url"
    try:
        parts = urlsplit(url)
    except ValueError:
        work.fields.wrong(key, "not a URL", "http://127.0.0.1:8000/v1/models", one_line(url)[:80])
        return
    work.put(key, "service.ready.path", parts.path or "/")
    if parts.hostname not in _LOOPBACK:
        work.fields.wrong(key, "readiness is asked of the head itself", "127.0.0.1", parts.hostname)


def _host(work: Work) -> None:
    fields = work.fields
    for key, place in (("memguard_gib", "guard.steady.floor"), ("startup_memguard_gib", "guard.startup.floor")):
        floor = fields.number(f"host.{key}")
        work.put(f"host.{key}", place, None if floor is None else f"{floor}GiB")
    for key, place in (
        ("memguard_interval_seconds", "guard.steady.interval"),
        ("startup_memguard_interval_seconds", "guard.startup.interval"),
    ):
        work.put(f"host.{key}", place, fields.number(f"host.{key}"))
    key = "host.startup_memguard_wait_seconds"
    work.put(key, "guard.startup.wait", fields.whole(key))
    work.put("host.kernel.release", "host.kernel", fields.text("host.kernel.release"))
    page = fields.whole("host.kernel.page_size")
    work.put("host.kernel.page_size", "host.page-size", None if page is None else binary_size(page))
    key = "host.kernel.memory_saver_required"
    work.put(key, "host.memory-saver", fields.switch(key))


def _deployment(work: Work) -> None:
    fields = work.fields
    work.put("deployment.launch_enabled", "promotion.launch-enabled", fields.switch("deployment.launch_enabled"))
    work.put("deployment.branch", "promotion.branch", fields.text("deployment.branch"))


def _transport(work: Work) -> None:
    transport = work.fields.text("fabric.transport")
    work.tables["transport"] = transport or _DEFAULT_TRANSPORT
    if transport is not None:
        work.account.placed("fabric.transport", "transport")
    work.put("kernel_backend", "kernel-backend", work.fields.text("kernel_backend"))


def _given(work: Work, nodes: int) -> Given:
    given = given_by(work.fabric, work.tables, nodes, work.fields.mapping("environment"))
    if given.tuning is not None:
        work.tables["tuning"] = given.tuning
    return given


def _nodes(work: Work, arguments: Mapping[str, Json]) -> int:
    """Return how many nodes the arguments speak of; where they do not agree, that is a problem."""
    speculative = arguments.get("speculative-config")
    draft_size = speculative.get("draft_tensor_parallel_size") if isinstance(speculative, Mapping) else None
    nodes = arguments.get("nnodes", arguments.get("tensor-parallel-size"))
    where = f"{work.account.file}: serve_args"
    if not isinstance(nodes, int) or nodes not in _CABLINGS:
        message = "neither three nodes nor four: no other number is cabled without a switch"
        detail = expected_got("--nnodes 3 or 4", nodes)
        work.fields.problems.append(Problem(where=where, message=message, detail=detail))
        return 0
    for name, size in (
        ("--tensor-parallel-size", arguments.get("tensor-parallel-size")),
        ("draft_tensor_parallel_size", draft_size),
    ):
        if size not in (None, nodes):
            detail = expected_got(f"{nodes}, as --nnodes says", size)
            message = f"{name} differs from the number of nodes"
            work.fields.problems.append(Problem(where=where, message=message, detail=detail))
    return nodes


def _made_name(nodes: int, tables: Mapping[str, Json]) -> str:
    host = tables.get("host")
    small = isinstance(host, Mapping) and host.get("page-size") == "4KiB"
    return f"tp{nodes}-{'ring' if nodes == 4 else 'triangle'}{'-4k' if small else ''}"


_DROPPED = {
    "schema_version": "the files that are written have a format of their own",
    "benchmark_reference": "that deployment's report; measure this shape, and name its record in promotion.benchmark",
    "promoted_baseline": "a release is named by its digest, and records say what was promoted",
    "container.image": "an image is named by its digest; the recipe names the file that derives it",
    "container.expected_labels": "the image's digest says all that its labels would",
    "deployment.repository": "a release is deployed by its digest, from no checkout",
    "deployment.path": "launch files lie in the site's folder",
    "host.kernel_policy": "that file is not read: the recipe's [host] has kernel, driver, the memory saver's version, "
    "huge pages and swap",
    "nodes_config": "the node map is given to this command, and becomes the site",
    "upstreams_config": "locks are the project's",
    "tuning_origin": "its values stand in the environment, each by itself",
}
