# SPDX-License-Identifier: Apache-2.0
"""Every form of a launch says the same, to the programs that read it.

The script and the compose file go through Docker's own clients to an engine that keeps what it was asked for; units are
run by a systemd of their own; netplan's generator writes what the network would be.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from derive.recipes.resolved import Container
from derive.render import quoting
from derive.render.launch import BindMount, Launch
from derive.render.templates import Templates
from speed.private_docker import default_binaries
from support.create_requests import Engine, keeping_engine
from support.launching import (
    example_site,
    node_files,
    project_files,
    project_shape,
    rendered,
    small_launch,
    write_files,
)
from support.require import skip_or_fail
from support.user_manager import user_manager

SITE = example_site(project_shape("probe", "triangle"))
RING = rendered(project_shape("ds41f", "tp4-ring"))
HARD = (
    "",
    " ",
    "a b",
    "$HOME ${HOME} $$ $(id) `id`",
    "100% %h %%",
    'it\'s "quoted"',
    "back\\slash \\n \\",
    '{"a": "{{ b }}", "c": [1, "$x"]}',
    "é 語 \U0001f600",
    "# no comment; !x *",
    "\ttab\nline\n",
    "--flag",
    "a=b=c",
)
"""Texts that some reader could take for something else."""

SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where systemd looks for a program that is named without its folder."""


def hard_launch() -> Launch:
    """A launch whose every text is hard to write."""
    texts = {f"V{number}": text.replace("\n", "|") for number, text in enumerate(HARD)}
    return small_launch(
        arguments=("/model", *HARD),
        environment={**texts, "EMPTY": ""},
        labels={f"x.{name.lower()}": text for name, text in texts.items()},
        mounts=(BindMount(source='/a, "b" $c', target="/d e", read_only=True), *small_launch().mounts),
    )


LAUNCHES: Mapping[str, Callable[[], Launch]] = {
    "recipe": lambda: RING.launches[1],
    "small": small_launch,
    "hard": hard_launch,
    "bare": lambda: small_launch(container=Container(), entrypoint=(), mounts=(), labels={}, environment={}),
}


@dataclass(frozen=True, slots=True)
class Told:
    """What an engine was told: everything of a container that is not as if nobody had said it."""

    name: str
    image: str
    process: tuple[str, ...]
    entrypoint: bool
    environment: tuple[str, ...]
    labels: dict[str, str]
    host: dict[str, Any]

    @classmethod
    def of(cls, asked: tuple[str, dict[str, Any]]) -> Told:
        """Read a request to make a container."""
        name, body = asked
        entrypoint = body["Entrypoint"] or []
        own = {key: value for key, value in body["Labels"].items() if not key.startswith("com.docker.compose.")}
        host = {**body["HostConfig"], "StopTimeout": body.get("StopTimeout")}
        return cls(
            name=name,
            image=body["Image"],
            process=(*entrypoint, *(body["Cmd"] or ())),
            entrypoint=bool(entrypoint),
            environment=tuple(sorted(body["Env"] or ())),
            labels=own,
            host=plain(host),
        )


def plain(host: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what says nothing, which one client writes as null and the other as empty."""
    silent: list[Any] = [None, "", 0, False, -1, [], {}, [0, 0]]
    found = {key: value for key, value in host.items() if value not in silent}
    found.pop("LogConfig", None)
    found.pop("RestartPolicy", None)
    if "CapAdd" in found:
        found["CapAdd"] = [name.removeprefix("CAP_") for name in found["CapAdd"]]
    found["Ulimits"] = sorted(found.get("Ulimits", ()), key=lambda one: str(one["Name"]))
    for key in ("Mounts", "DeviceRequests"):
        found[key] = [{k: v for k, v in one.items() if v not in (None, {}, "")} for one in found.get(key, ())]
    # Compose gives them in any order, and an engine mounts them by their depth.
    found["Mounts"].sort(key=lambda one: str(one["Target"]))
    return found


def expected(launch: Launch) -> Told:
    """Return what the launch itself says, written without any of the code that writes forms."""
    container = launch.container
    host = {
        "NetworkMode": container.network,
        "IpcMode": container.ipc,
        "CgroupParent": launch.slice,
        "CapAdd": list(container.add_capabilities),
        "SecurityOpt": list(container.security_options),
        "ShmSize": container.shared_memory_bytes,
        "Memory": container.memory_bytes,
        "MemorySwap": container.memory_swap_bytes,
        "DeviceCgroupRules": list(container.device_cgroup_rules),
        "StopTimeout": container.stop_seconds,
        "Devices": [
            dict(zip(("PathOnHost", "PathInContainer", "CgroupPermissions"), one.split(":"), strict=True))
            for one in container.devices
        ],
        "Ulimits": [
            {"Name": name, "Soft": int(limit.split(":")[0]), "Hard": int(limit.split(":")[1])}
            for name, limit in container.ulimits.items()
        ],
        "DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}] if container.gpus else [],
        "Mounts": [
            {
                "Type": "bind",
                "Source": one.source,
                "Target": one.target,
                **({"ReadOnly": True} if one.read_only else {}),
            }
            for one in launch.mounts
        ],
    }
    return Told(
        name=launch.name,
        image=launch.reference,
        process=(*launch.entrypoint, *launch.arguments),
        entrypoint=bool(launch.entrypoint),
        environment=tuple(sorted(f"{name}={value}" for name, value in launch.environment.items())),
        labels=dict(launch.labels),
        host=plain(host),
    )


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with keeping_engine(tmp_path_factory.mktemp("engine")) as running:
        yield running


def client(name: str) -> str:
    """Return one of Docker's clients, as the engine of the tests has it, or the machine."""
    own = default_binaries() / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        skip_or_fail(f"there is no {name}: run tests/support/install-docker {default_binaries()}")
    return found


def files_of(launch: Launch, folder: Path) -> Path:
    return write_files(node_files(launch, SITE, Templates(project_files())), folder)


def through_script(engine: Engine, folder: Path) -> Told:
    tools = folder / "tools"
    tools.mkdir()
    (tools / "docker").symlink_to(client("docker"))
    said = engine.run(["bash", str(folder / "run")], {"PATH": f"{tools}:{os.environ['PATH']}"})
    assert engine.created, said
    return Told.of(engine.one())


def through_compose(engine: Engine, folder: Path) -> Told:
    said = engine.run([client("docker-compose"), "-f", str(folder / "compose.yaml"), "create"])
    assert engine.created, said
    return Told.of(engine.one())


@pytest.mark.parametrize("launch", LAUNCHES)
@pytest.mark.parametrize("through", [through_script, through_compose])
def test_an_engine_is_told_what_the_launch_says(
    engine: Engine, tmp_path: Path, through: Callable[[Engine, Path], Told], launch: str
) -> None:
    said = LAUNCHES[launch]()
    assert through(engine, files_of(said, tmp_path)) == expected(said)


def test_options_may_be_given_to_the_script(engine: Engine, tmp_path: Path) -> None:
    folder = files_of(small_launch(), tmp_path)
    tools = write_files({}, folder)
    (tools / "docker").symlink_to(client("docker"))
    engine.run(["bash", str(folder / "run"), "--env=MORE=1", "--rm"], {"PATH": f"{tools}:{os.environ['PATH']}"})
    _, body = engine.one()
    assert "MORE=1" in body["Env"]
    assert body["HostConfig"]["AutoRemove"] is True


def test_docker_reads_the_environment_file_as_the_launchs_variables(engine: Engine, tmp_path: Path) -> None:
    launch = hard_launch()
    file = files_of(launch, tmp_path) / "environment.env"
    engine.run([client("docker"), "run", "--pull=never", f"--env-file={file}", "image"])
    assert Told.of(engine.one()).environment == expected(launch).environment


def test_compose_reads_its_file_as_a_configuration(tmp_path: Path) -> None:
    file = files_of(RING.launches[0], tmp_path) / "compose.yaml"
    command = [client("docker-compose"), "-f", str(file), "config", "--format", "json"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["services"]["ds41f"]
    # It writes a file again, and so doubles each dollar.
    assert said["command"] == [word.replace("$", "$$") for word in RING.launches[0].arguments]
    assert said["environment"] == {k: v.replace("$", "$$") for k, v in RING.launches[0].environment.items()}


@pytest.mark.parametrize("through", [through_script, through_compose])
def test_json_in_an_argument_reaches_the_process_as_the_recipes_object(
    engine: Engine, tmp_path: Path, through: Callable[[Engine, Path], Told]
) -> None:
    resolved = project_shape("ds41f", "tp4-ring")
    told = through(engine, files_of(RING.launches[0], tmp_path))
    for name in ("speculative-config", "compilation-config", "hf-overrides"):
        word = told.process[told.process.index(f"--{name}") + 1]
        assert json.loads(word) == resolved.arguments[name]


@pytest.mark.parametrize("through", [through_script, through_compose])
def test_a_variable_that_is_empty_is_set_and_one_that_is_absent_is_not_there(
    engine: Engine, tmp_path: Path, through: Callable[[Engine, Path], Told]
) -> None:
    told = through(engine, files_of(small_launch(environment={"EMPTY": ""}), tmp_path))
    assert told.environment == ("EMPTY=",)


def test_netplan_makes_of_its_file_the_addresses_and_frames_of_the_cables(tmp_path: Path) -> None:
    places = (os.environ.get("NETPLAN_GENERATE_PATH"), "/usr/libexec/netplan/generate", "/lib/netplan/generate")
    program = next((place for place in places if place and Path(place).exists()), None)
    if program is None:
        skip_or_fail("there is no netplan: apt-get install netplan.io")
    for node in RING.site.nodes:
        root = tmp_path / node.name
        file = write_files({"etc/netplan/40-cx7.yaml": RING.node(node.name)["netplan.yaml"]}, root)
        (file / "etc/netplan/40-cx7.yaml").chmod(0o600)
        done = subprocess.run([program, "--root-dir", str(root)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        made = {path.name: path.read_text().splitlines() for path in (root / "run/systemd/network").iterdir()}
        for _, _, here, _ in RING.site.paths_of(node.rank):
            network = made.pop(f"10-netplan-{here.interface}.network")
            assert {f"Address={here.address}/24", "MTUBytes=9000", "LinkLocalAddressing=no"} <= set(network)
            assert {"IPv6AcceptRA=no", "RequiredForOnline=no"} <= set(network)
            assert not [line for line in network if line.startswith("DHCP")]
            assert "MTUBytes=9000" in made.pop(f"10-netplan-{here.interface}.link")
        assert made == {}


def test_systemd_finds_nothing_wrong_with_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        skip_or_fail("there is no systemd-analyze: apt-get install systemd")
    launch = small_launch(folder=f"{tmp_path}/small/current")
    folder = files_of(launch, tmp_path / "small/current")
    guard = tmp_path / "guard/5a5a5a5a5a5a/memguard"
    write_files({"guard/5a5a5a5a5a5a/memguard": b"#!/bin/sh\n"}, tmp_path)
    guard.chmod(0o755)
    units = sorted(str(path) for path in (folder / "systemd").iterdir())
    system = ("/lib/systemd/system", "/usr/lib/systemd/system")
    # A machine of tests need not have Docker's unit, which is no unit of ours.
    write_files({"stand-in/docker.service": b"[Service]\nExecStart=/bin/true\n"}, tmp_path)
    variables = {**os.environ, "SYSTEMD_UNIT_PATH": ":".join([f"{folder}/systemd", f"{tmp_path}/stand-in", *system])}
    done = subprocess.run(
        ["systemd-analyze", "--man=no", "--generators=no", "verify", *units],
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    absent = {"derive-small.service: Command docker is not executable: No such file or directory"}
    dropped = absent if shutil.which("docker", path=SYSTEMD_PATH) is None else set()
    said = [line for line in done.stderr.splitlines() if not line.startswith(tuple(f"{one}/" for one in system))]
    assert set(said) <= dropped
    assert done.returncode == (1 if said else 0)


@pytest.mark.sandbox
def test_systemd_gives_a_program_the_words_that_were_quoted_for_it(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    words = ["bash", "-c", f'printf "%s\\0" "$@" >{heard}', "bash", *HARD, "".join(map(chr, range(1, 128)))]
    unit = f"[Service]\nType=oneshot\nExecStart={quoting.systemd(words)}\n"
    units = write_files({"units/words.service": unit.encode(), "programs/none": b""}, tmp_path)
    with user_manager(units / "units", units / "programs") as manager:
        assert manager.systemctl("start", "words.service").returncode == 0
    assert heard.read_bytes().decode().split("\0")[:-1] == words[4:]
