# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from derive.canonical import Digest, encode, sha256
from derive.errors import Corrupt, InputErrors
from derive.images.layer import LayerDescriptor
from derive.images.oci import (
    Descriptor,
    ImageConfig,
    config_problems,
    image_documents,
    index,
    is_export,
    named_blobs,
    platform_of,
)

LAYER = LayerDescriptor(blob=sha256(b"blob"), size=10, diff_id=sha256(b"tar"), uncompressed_size=20)
OTHER = LayerDescriptor(blob=sha256(b"blob2"), size=11, diff_id=sha256(b"tar2"), uncompressed_size=21)
DERIVATION = sha256(b"derivation")
FULL = ImageConfig(
    environment={"PATH": "/usr/bin", "LANG": "C.UTF-8"},
    entrypoint=("/usr/bin/python3", "-m", "x"),
    command=("--help",),
    user="1000:1000",
    working_folder="/srv",
    labels={"org.opencontainers.image.title": "probe"},
    stop_signal="SIGINT",
    exposed_ports=("8000/tcp", "29500"),
    annotations={"b": "2", "a": "1"},
)


def test_a_config_holds_what_was_declared_and_nothing_else() -> None:
    config = json.loads(image_documents(FULL, [LAYER, OTHER], platform="linux/amd64", derivation=DERIVATION).config)
    assert config == {
        "architecture": "amd64",
        "os": "linux",
        "created": "1980-01-01T00:00:00Z",
        "config": {
            "User": "1000:1000",
            "ExposedPorts": {"29500": {}, "8000/tcp": {}},
            "Env": ["LANG=C.UTF-8", "PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/python3", "-m", "x"],
            "Cmd": ["--help"],
            "WorkingDir": "/srv",
            "Labels": {"io.derive.derivation": str(DERIVATION), "org.opencontainers.image.title": "probe"},
            "StopSignal": "SIGINT",
        },
        "rootfs": {"type": "layers", "diff_ids": [str(LAYER.diff_id), str(OTHER.diff_id)]},
        "history": [{"created": "1980-01-01T00:00:00Z", "created_by": "derive"}] * 2,
    }


def test_an_empty_configuration_leaves_everything_out_but_the_label() -> None:
    config = json.loads(image_documents(ImageConfig(), [], platform="linux/amd64", derivation=DERIVATION).config)
    assert config["config"] == {"Labels": {"io.derive.derivation": str(DERIVATION)}}
    assert (config["history"], config["rootfs"]["diff_ids"]) == ([], [])


def test_an_arm64_image_states_its_variant() -> None:
    config = json.loads(image_documents(ImageConfig(), [], platform="linux/arm64", derivation=DERIVATION).config)
    assert (config["os"], config["architecture"], config["variant"]) == ("linux", "arm64", "v8")


def test_a_manifest_names_config_and_layers_with_sizes_and_types() -> None:
    documents = image_documents(FULL, [LAYER, OTHER], platform="linux/amd64", derivation=DERIVATION)
    layer_type = "application/vnd.oci.image.layer.v1.tar+gzip"
    assert json.loads(documents.manifest) == {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": str(sha256(documents.config)),
            "size": len(documents.config),
        },
        "layers": [
            {"mediaType": layer_type, "digest": str(LAYER.blob), "size": 10},
            {"mediaType": layer_type, "digest": str(OTHER.blob), "size": 11},
        ],
        "annotations": {"a": "1", "b": "2"},
    }
    assert documents.digest == sha256(documents.manifest)


def test_a10_the_order_of_maps_decides_nothing() -> None:
    def turned(mapping: object) -> dict[str, str]:
        assert isinstance(mapping, dict)
        return dict(reversed(mapping.items()))

    other = ImageConfig(
        environment=turned(dict(FULL.environment)),
        entrypoint=FULL.entrypoint,
        command=FULL.command,
        user=FULL.user,
        working_folder=FULL.working_folder,
        labels=turned(dict(FULL.labels)),
        stop_signal=FULL.stop_signal,
        exposed_ports=tuple(reversed(FULL.exposed_ports)),
        annotations=turned(dict(FULL.annotations)),
    )
    documents = [image_documents(c, [LAYER], platform="linux/arm64", derivation=DERIVATION) for c in (FULL, other)]
    assert documents[0] == documents[1]
    assert documents[0].config == encode(json.loads(documents[0].config))
    assert documents[0].manifest == encode(json.loads(documents[0].manifest))


def test_the_derivation_the_platform_and_the_layers_decide_the_digest() -> None:
    digests = {
        image_documents(FULL, layers, platform=platform, derivation=derivation).digest
        for layers in ([LAYER], [OTHER], [LAYER, OTHER], [OTHER, LAYER])
        for platform in ("linux/amd64", "linux/arm64")
        for derivation in (DERIVATION, sha256(b"another"))
    }
    assert len(digests) == 16


def test_what_cannot_stand_in_a_configuration_is_refused_all_at_once() -> None:
    config = ImageConfig(
        environment={"A=B": "", "": "x", "OK": "a\0b"},
        entrypoint=("a\0",),
        working_folder="srv",
        stop_signal="INT",
        exposed_ports=("0", "70000", "80/http"),
        labels={"io.derive.derivation": "x", "": "y"},
    )
    problems = config_problems(config, where="images/x.toml: config")
    assert sorted(problem.message for problem in problems) == [
        "a zero byte in an argument: 'a\\x00'",
        "an empty label name",
        "no environment variable: ''",
        "no environment variable: 'A=B'",
        "no environment variable: 'OK'",
        "no port: '0'",
        "no port: '70000'",
        "no port: '80/http'",
        "no signal: 'INT'",
        "the label io.derive.derivation is written by the image step",
        "the working folder is no absolute path: 'srv'",
    ]
    with pytest.raises(InputErrors, match="11 problems"):
        image_documents(config, [], platform="linux/amd64", derivation=DERIVATION)
    assert config_problems(FULL) == ()


def test_an_unknown_platform_and_mixed_media_types_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown platform: linux/riscv64"):
        image_documents(FULL, [], platform="linux/riscv64", derivation=DERIVATION)
    zstd = LayerDescriptor(blob=LAYER.blob, size=1, diff_id=LAYER.diff_id, uncompressed_size=1, media_type="x")
    with pytest.raises(ValueError, match="one media type"):
        image_documents(FULL, [LAYER, zstd], platform="linux/amd64", derivation=DERIVATION)


def test_a_configuration_survives_its_document() -> None:
    assert ImageConfig.from_document(FULL.to_document()) == FULL
    with pytest.raises(ValueError, match="unknown or absent keys: x"):
        ImageConfig.from_document({**FULL.to_document(), "x": 1})
    with pytest.raises(ValueError, match="labels"):
        ImageConfig.from_document({**FULL.to_document(), "labels": {"a": 1}})


def test_the_blobs_that_a_manifest_names_are_read_back() -> None:
    documents = image_documents(FULL, [LAYER], platform="linux/amd64", derivation=DERIVATION)
    config, layer = named_blobs(documents.manifest)
    assert (config.digest, config.size) == (sha256(documents.config), len(documents.config))
    assert (layer.digest, layer.size, layer.media_type) == (LAYER.blob, LAYER.size, LAYER.media_type)
    assert platform_of(documents.config) == {"architecture": "amd64", "os": "linux"}


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"mediaType":"application/vnd.oci.image.manifest.v1+json"}', b"\xff"]
)
def test_what_is_no_manifest_is_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        named_blobs(data)


def test_an_index_names_one_image_and_is_known_again() -> None:
    manifest = Descriptor(media_type="m", digest=Digest("0" * 64), size=3)
    data = index(manifest, platform={"os": "linux", "architecture": "amd64"}, name="probe")
    assert json.loads(data)["manifests"] == [
        {
            "mediaType": "m",
            "digest": "sha256:" + "0" * 64,
            "size": 3,
            "platform": {"os": "linux", "architecture": "amd64"},
            "annotations": {
                "io.containerd.image.name": "localhost/probe:latest",
                "org.opencontainers.image.ref.name": "probe",
            },
        }
    ]
    assert is_export(data)
    assert not is_export(b'{"schemaVersion":2,"manifests":[]}')
    assert not is_export(b"{")


def test_an_index_offers_docker_no_name_that_it_refuses() -> None:
    data = index(Descriptor(media_type="m", digest=Digest("0" * 64), size=3), platform={}, name="Probe")
    assert json.loads(data)["manifests"][0]["annotations"] == {"org.opencontainers.image.ref.name": "Probe"}


@pytest.mark.parametrize("name", ["", "a b", "/a", "a/", "é"])
def test_a_name_that_a_layout_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(InputErrors):
        index(Descriptor(media_type="m", digest=Digest("0" * 64), size=3), platform={}, name=name)


@pytest.mark.parametrize("signal", ["SIGFOO", "sigterm", "TERM", "SIGRTMIN+0", "100"])
def test_a_signal_that_linux_does_not_have_is_told(signal: str) -> None:
    assert [one.message for one in config_problems(ImageConfig(stop_signal=signal))] == [f"no signal: {signal!r}"]


@pytest.mark.parametrize("user", ["a:b:c", "a b", ":0", "0:", "-x"])
def test_a_user_that_no_engine_takes_is_told_beside_everything_else(user: str) -> None:
    found = config_problems(ImageConfig(user=user, working_folder="rel", stop_signal="SIGX"))
    assert sorted(one.message.partition(":")[0] for one in found) == [
        "no signal",
        "no user, nor user and group",
        "the working folder is no absolute path",
    ]


@pytest.mark.parametrize(("user", "signal"), [("", ""), ("0:0", "SIGTERM"), ("nobody", "SIGRTMIN+3"), ("1000", "9")])
def test_users_and_signals_that_engines_take_are_taken(user: str, signal: str) -> None:
    assert config_problems(ImageConfig(user=user, stop_signal=signal)) == ()
