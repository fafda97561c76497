# SPDX-License-Identifier: Apache-2.0
"""Where a container's control group will be without systemd, and the command lines of guards that look there."""

from __future__ import annotations

import pytest

from derive.deploy.guard_words import PlaceError, group_of, supervised
from derive.render.plan import LAUNCH_BUNDLE_LABEL
from support.launching import small_launch

V2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
TMPFS = "30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
V1 = TMPFS + (
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 30 0:29 / /sys/fs/cgroup/freezer rw shared:9 - cgroup cgroup rw,freezer\n"
    "34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
SLICE = "derive-small.slice"


@pytest.mark.parametrize(
    ("groups", "mounts", "group"),
    [
        ("0::/\n", V2, f"/sys/fs/cgroup/{SLICE}"),
        ("0::/engine\n", V2, f"/sys/fs/cgroup/{SLICE}"),
        ("0::/outer/engine\n", V2, f"/sys/fs/cgroup/outer/{SLICE}"),
        ("6:freezer:/\n4:memory:/outer\n0::/\n", V1, f"/sys/fs/cgroup/freezer/{SLICE}"),
        ("6:freezer:/engine\n4:memory:/\n0::/\n", V1, f"/sys/fs/cgroup/freezer/engine/{SLICE}"),
        ("4:memory:/outer\n0::/\n", V1, f"/sys/fs/cgroup/memory/outer/{SLICE}"),
        (
            "6:freezer:/pod/engine\n",
            "33 30 0:29 /pod /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n",
            f"/sys/fs/cgroup/freezer/engine/{SLICE}",
        ),
        ("0::/\n", V2 + V1, None),
        ("6:freezer:/\n", V1.replace("/freezer", "/fre\\040zer"), f"/sys/fs/cgroup/fre zer/{SLICE}"),
    ],
    ids=["v2 top", "v2 child", "v2 deeper", "v1 top", "v1 child", "v1 memory", "v1 part", "covered", "escaped"],
)
def test_the_group_follows_from_the_engine_s_own(groups: str, mounts: str, group: str | None) -> None:
    if group is None:
        with pytest.raises(PlaceError):
            group_of(small_launch(), groups, mounts)
    else:
        assert group_of(small_launch(), groups, mounts) == group


@pytest.mark.parametrize(
    ("groups", "mounts"),
    [
        ("0::/\n", ""),
        ("0::/../outer\n", V2),
        ("6:freezer:/elsewhere\n", "33 30 0:29 /pod /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n"),
    ],
    ids=["nothing mounted", "outside the namespace", "outside what is mounted"],
)
def test_a_group_that_cannot_be_told_is_refused(groups: str, mounts: str) -> None:
    with pytest.raises(PlaceError):
        group_of(small_launch(), groups, mounts)


def test_a_supervisor_is_told_the_units_guards_with_that_group() -> None:
    launch = small_launch(labels={LAUNCH_BUNDLE_LABEL: "sha256:aa"})
    told = supervised(launch, "/sys/fs/cgroup/g", ("/var/lib/derive/cache/5a5a5a5a5a5a",))
    assert told == {
        "service": "small",
        "launch": "sha256:aa",
        "run": "/var/lib/derive/small/current/run",
        "group": "/sys/fs/cgroup/g",
        "guards": {
            phase: {
                "words": [
                    "/var/lib/derive/guard/5a5a5a5a5a5a/memguard",
                    *("--container", "small", "--phase", phase, "--cgroup", "/sys/fs/cgroup/g"),
                    *("--floor", floor, "--interval", interval, "--wait", wait),
                    *("--ready-file", f"/run/derive/small/guard-{phase}"),
                    *("--evidence", "/var/lib/derive/small/evidence"),
                ],
                "ready": f"/run/derive/small/guard-{phase}",
            }
            for phase, floor, interval, wait in (
                ("startup", str(5 << 30), "0.25", "120"),
                ("steady", str(3 << 30), "2", "0"),
            )
        },
        "folders": ["/var/lib/derive/small/evidence", "/var/lib/derive/cache/5a5a5a5a5a5a"],
        "stop_seconds": launch.container.stop_seconds,
    }
