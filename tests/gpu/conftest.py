# SPDX-License-Identifier: Apache-2.0
"""One run of all kernels on this machine's GPU, which every test here reads; skipped where there is none.

``DERIVE_GPU_PYTHON`` names the Python with torch (default: python3), ``DERIVE_GPU_WHEELS`` a folder with TileLang's
wheels for it (default: the lock's).
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from derive.kernels.bench import Wanted, gather, gpu_refusal, run_here
from support.cli import CHECKOUT


@pytest.fixture(scope="session")
def report() -> Mapping[str, Any]:
    """Return what the run reports."""
    python = os.environ.get("DERIVE_GPU_PYTHON", "python3")
    why = gpu_refusal(python)
    if why is not None:
        pytest.skip(f"{why}; to run them elsewhere: derive kernels bench --pack FILE")
    from derive.build.service import Options
    from derive.cli.console import store_folder
    from derive.project import load_project
    from derive.store.local import LocalStore

    wheels = os.environ.get("DERIVE_GPU_WHEELS")
    wanted = Wanted(gpu=os.environ.get("DERIVE_GPU", "sm_90a"), wheels=Path(wheels) if wheels else None)
    jobs = len(os.sched_getaffinity(0))
    with LocalStore(store_folder(argparse.Namespace())) as store:
        bundle = gather(load_project(CHECKOUT), store, wanted, Options(jobs=jobs), None)
        found: Mapping[str, Any] = json.loads(run_here(bundle, python))
    return found
