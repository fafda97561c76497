# SPDX-License-Identifier: Apache-2.0
"""Transports and tuning profiles: what they give, what they need, and what is wrong with files that say them."""

from __future__ import annotations

import pytest

from derive.errors import InputErrors
from derive.fabric.catalogue import load_fabric, load_tuning
from derive.fabric.transports import arguments, find_transport, kernel_needs, needs, settings
from support.fabrics import launching
from support.golden import check_golden
from support.shapes_of_fabric import fabric

TRANSPORTS = "fabric/transports.toml"
SETTINGS = "fabric/settings.toml"


def names(found: tuple[object, ...]) -> list[str]:
    return [str(getattr(one, "capability", "")) for one in found]


def test_the_transports_of_three_and_four_sparks_are_there() -> None:
    cablings = {name: one.cablings for name, one in fabric().transports.items()}
    assert cablings == {
        "none": ("triangle", "ring4"),
        "nccl-ring": ("triangle", "ring4"),
        "oneshot-direct": ("triangle",),
        "oneshot-ring4": ("ring4",),
        "rocenante-direct": ("triangle",),
        "rocenante-ring4": ("ring4",),
        "rocenante-mesh4": ("ring4",),
    }
    assert [name for name, one in fabric().transports.items() if one.planned] == ["rocenante-mesh4"]


def test_rings_require_what_keeps_nccl_along_the_cables() -> None:
    given = {name: one.value for name, one in settings(fabric(), "nccl-ring", None, "").items()}
    assert given == {
        "NCCL_ALGO": "Ring",
        "NCCL_COLLNET_ENABLE": "0",
        "NCCL_CROSS_NIC": "1",
        "NCCL_CUMEM_ENABLE": "1",
        "NCCL_CUMEM_HOST_ENABLE": "0",
        "NCCL_GIN_ENABLE": "0",
        "NCCL_IB_ADDR_FAMILY": "AF_INET",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_MERGE_NICS": "1",
        "NCCL_IB_ROCE_VERSION_NUM": "2",
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        "NCCL_IB_SUBNET_PREFIX_LEN": "24",
        "NCCL_IGNORE_CPU_AFFINITY": "1",
        "NCCL_MNNVL_ENABLE": "0",
        "NCCL_NET": "IB",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_NVLS_ENABLE": "0",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_PAT_ENABLE": "0",
        "NCCL_RMA_DISABLE": "1",
        "NCCL_RUNTIME_CONNECT": "1",
        "NCCL_SHM_DISABLE": "1",
        "VLLM_DISABLE_PYNCCL": "0",
    }


def test_every_transport_on_a_ring_has_the_settings_of_rings() -> None:
    ring = {name for name, (_, key) in fabric().transports["nccl-ring"].settings.items() if key.startswith("ring.")}
    for one in fabric().transports.values():
        assert ring <= one.settings.keys() if one.channels else not ring & one.settings.keys() - {"NCCL_CUMEM_ENABLE"}


def test_no_collectives_no_settings_and_no_needs() -> None:
    assert settings(fabric(), "none", "tp4", "") == {}
    assert needs(fabric(), "none", {}, "") == ()
    assert arguments(fabric(), "none", "") == {}


def test_nccl_alone_has_custom_all_reduce_off_and_engines_leave_it_on() -> None:
    assert arguments(fabric(), "nccl-ring", "") == {"disable-custom-all-reduce": True}
    assert arguments(fabric(), "oneshot-ring4", "") == {}


def test_a_profile_gives_what_is_for_the_transport_and_may_be_overridden() -> None:
    given = settings(fabric(), "nccl-ring", "tp4", "")
    assert given["NCCL_MIN_NCHANNELS"].value == "4"
    assert given["NCCL_MIN_NCHANNELS"].tunable
    assert given["NCCL_MIN_NCHANNELS"].origin.file == "fabric/tuning/tp4.toml"
    assert not given["NCCL_ALGO"].tunable
    assert not any(name.startswith("SPARKNET_") for name in given)
    oneshot = settings(fabric(), "oneshot-ring4", "tp4", "")
    assert oneshot["SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES"].value == "2097152"


def test_a_triangle_has_one_channel_under_nccl_alone_and_eight_at_most_beside_an_engine() -> None:
    ring, oneshot = (settings(fabric(), name, "tp3", "") for name in ("nccl-ring", "oneshot-direct"))
    assert (ring["NCCL_MIN_NCHANNELS"].value, ring["NCCL_MAX_NCHANNELS"].value) == ("1", "1")
    assert oneshot["NCCL_MAX_NCHANNELS"].value == "8"
    assert "NCCL_MIN_NCHANNELS" not in oneshot


def test_needs_are_the_transports_own_and_those_of_variables_that_only_a_patched_library_reads() -> None:
    assert names(needs(fabric(), "nccl-ring", {"NCCL_ALGO": "Ring"}, "")) == ["nccl"]
    assert names(needs(fabric(), "oneshot-ring4", {}, "")) == ["nccl", "oneshot-ring4"]
    found = needs(fabric(), "nccl-ring", {"NCCL_SWITCHLESS_BIDIRECTIONAL": "2"}, "")
    assert names(found) == ["nccl", "nccl-switchless"]
    assert found[1].because == "fabric/settings.toml: settings.NCCL_SWITCHLESS_BIDIRECTIONAL.needs"


def test_kernel_backends_need_what_gives_them() -> None:
    assert names(kernel_needs(fabric(), "b12x")) == ["linear-b12x", "moe-b12x"]
    assert names(kernel_needs(fabric(), "tilelang")) == ["tilelang-backend"]
    assert kernel_needs(fabric(), None) == ()


def test_an_unknown_transport_is_said_with_the_nearest() -> None:
    with pytest.raises(InputErrors) as caught:
        find_transport(fabric(), "nccl-rnig", "recipes/x.toml: transport")
    (problem,) = caught.value.problems()
    assert (problem.where, problem.hint) == ("recipes/x.toml: transport", "did you mean nccl-ring?")


def refused(changes: dict[str, tuple[str, str]], more: dict[str, bytes | None] | None = None) -> str:
    files: dict[str, bytes | None] = {**launching(), **(more or {})}
    for path, (old, new) in changes.items():
        data = files[path]
        assert data is not None
        assert old.encode() in data
        files[path] = data.replace(old.encode(), new.encode(), 1)
    with pytest.raises(InputErrors) as caught:
        load_fabric({path: data for path, data in files.items() if data is not None})
    from derive.cli.console import _format

    return "".join(f"{_format(one)}\n" for one in caught.value.problems())


def test_what_is_wrong_in_three_files_is_said_at_once() -> None:
    text = refused(
        {
            TRANSPORTS: ('engine = "oneshot"', 'engine = "oneshoot"'),
            SETTINGS: ('kind = "count"', 'kind = "counts"'),
            "fabric/tuning/tp4.toml": ("nodes = 4", 'nodes = "4"'),
        }
    )
    check_golden("fabric/catalogue-three-files.txt", text)


def test_an_unknown_engine_of_a_transport_is_refused() -> None:
    assert "no engine is called oneshoot" in refused({TRANSPORTS: ('engine = "oneshot"', 'engine = "oneshoot"')})


def test_absent_files_are_refused_by_name() -> None:
    text = refused({}, {TRANSPORTS: None, SETTINGS: None})
    assert text == f"error: {SETTINGS}: no such file\nerror: {TRANSPORTS}: no such file\n"


PROFILE = """\
format = 1
doc = "a test"
nodes = 4
[nccl]
NCCL_PROTO = "LL"
NCCL_MIN_NCHANNELS = "8"
NCCL_MAX_NCHANNELS = "4"
NCCL_THREAD_THRESHOLDS = "1 2 3"
NCCL_BUFFSIZE = "0"
NCCL_ALGO = "Tree"
NCCL_BUFSIZE = "1"
NCCL_MIN_TRAFFIC_PER_CHANNEL = "512"
SPARKNET_ROCE_SPIN_LIMIT = "5"
[engines.oneshot]
SPARKNET_ROCE_ALLGATHER_MAX_BYTES = "17"
SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES = "1048576"
SPARKNET_ROCE_ALLREDUCE_DISPATCH_MAX_BYTES = "2097152"
NCCL_LL128_BUFFSIZE = "16"
[engines.twoshot]
[transports.nccl-rings]
"""


def test_everything_wrong_in_a_profile_is_said_at_once() -> None:
    from derive.cli.console import _format

    with pytest.raises(InputErrors) as caught:
        load_tuning(PROFILE.encode(), "fabric/tuning/bad.toml", fabric())
    check_golden("fabric/tuning-bad.txt", "".join(f"{_format(one)}\n" for one in caught.value.problems()))


def test_three_nodes_refuse_settings_of_four() -> None:
    text = 'format = 1\ndoc = "x"\nnodes = 3\n[nccl]\nNCCL_SWITCHLESS_BIDIRECTIONAL = "2"\n'
    with pytest.raises(InputErrors) as caught:
        load_tuning(text.encode(), "fabric/tuning/x.toml", fabric())
    assert "is for 4 nodes" in caught.value.problems()[0].message


def test_channels_of_a_ring_are_judged_in_a_profile_too() -> None:
    text = 'format = 1\ndoc = "x"\nnodes = 4\n[nccl]\nNCCL_MIN_NCHANNELS = "3"\nNCCL_MAX_NCHANNELS = "3"\n'
    with pytest.raises(InputErrors) as caught:
        load_tuning(text.encode(), "fabric/tuning/x.toml", fabric())
    assert "1, 2, 4 or 8" in "".join(caught.value.problems()[0].detail)
