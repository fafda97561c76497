# SPDX-License-Identifier: Apache-2.0
"""Cluster files and node maps as the deployment that this one follows had them, with addresses of documentation."""

from __future__ import annotations

import json
from typing import Any

REVISION = "dba1be0a40aa45a94ad051997016db3960a90277"
HUB = "{home}/.cache/huggingface/hub/models--deepseek-ai--DeepSeek-V4.1-Flash"

DOCKER = [
    "--network=host",
    "--ipc=host",
    "--gpus=all",
    "--device=/dev/infiniband:/dev/infiniband:rwm",
    "--cap-add=IPC_LOCK",
    "--ulimit=memlock=-1:-1",
    "--ulimit=stack=67108864:67108864",
    "--security-opt=seccomp=unconfined",
    "--security-opt=label=disable",
    "--shm-size=16g",
    "--memory=112g",
    "--memory-swap=112g",
    "--mount=type=bind,source=/dev/dri/by-path/pci-000f:01:00.0-card,target=/dev/dri/card0",
    "--device-cgroup-rule=c 226:* rw",
]

_COMMON = """
B12X_AUTOTUNE=0 B12X_COMPILE_CACHE_DIR=/cache/jit/b12x/compile CUDA_CACHE_MAXSIZE=4294967296
CUDA_CACHE_PATH=/cache/jit/nv-compute CUDA_DEVICE_MAX_CONNECTIONS=32 TILELANG_CACHE_DIR=/cache/jit/tilelang
HF_HOME=/cache/huggingface HF_HUB_OFFLINE=1 GLOO_SOCKET_IFNAME=enP7s7 NCCL_SOCKET_IFNAME=enP7s7
TP_SOCKET_IFNAME=enP7s7 OMP_NUM_THREADS=8
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,garbage_collection_threshold:0.6
SPARK3_DSPARK_DEAD_ROWS_TAU=0.2 VLLM_DS41_KERNEL_BACKEND=tilelang SPARKNET_ROCE_GID_INDEX=3
SPARKNET_ROCE_SPIN_LIMIT=5000000 SPARKNET_ROCE_ALLREDUCE_CAPACITY_BYTES=2097152 VLLM_DISABLE_PYNCCL=0
VLLM_ENABLE_PCIE_ALLREDUCE=0 VLLM_PLUGINS= VLLM_USE_V2_MODEL_RUNNER=1 NCCL_CROSS_NIC=1 NCCL_DEBUG=WARN
NCCL_DEBUG_SUBSYS=INIT NCCL_IB_ADDR_FAMILY=AF_INET NCCL_IB_DISABLE=0 NCCL_IB_GID_INDEX=3
NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1 NCCL_IB_MERGE_NICS=1 NCCL_IB_ROCE_VERSION_NUM=2
NCCL_IB_SUBNET_AWARE_ROUTING=1 NCCL_IGNORE_CPU_AFFINITY=1 NCCL_LL128_BUFFSIZE=262144 NCCL_NET=IB NCCL_NET_PLUGIN=none
NCCL_NVLS_ENABLE=0 NCCL_P2P_DISABLE=1 NCCL_PROTO=^LL128 NCCL_SHM_DISABLE=1
"""
_TRIANGLE = """
NCCL_BUFFSIZE=1048576 NCCL_CUMEM_ENABLE=0 NCCL_MAX_NCHANNELS=8 SPARKNET_ROCE_ALLGATHER_MAX_BYTES=4194304
VLLM_L2_PREFETCH_GRID=4
"""
_RING = """
NCCL_BUFFSIZE=4194304 NCCL_CUMEM_ENABLE=1 NCCL_CUMEM_HOST_ENABLE=0 NCCL_MIN_NCHANNELS=4 NCCL_MAX_NCHANNELS=4
NCCL_ALGO=Ring NCCL_RUNTIME_CONNECT=1 NCCL_PAT_ENABLE=0 NCCL_COLLNET_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_GIN_ENABLE=0
NCCL_RMA_DISABLE=1 NCCL_IB_SUBNET_PREFIX_LEN=24 NCCL_MIN_TRAFFIC_PER_CHANNEL=512 NCCL_SWITCHLESS_BIDIRECTIONAL=2
SPARKNET_ROCE_ALLGATHER_MAX_BYTES=2097152 SPARKNET_ROCE_ALLREDUCE_DISPATCH_MAX_BYTES=2097152 VLLM_L2_PREFETCH_GRID=2
"""
_SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48]


def cluster(nodes: int) -> dict[str, Any]:
    """Return the cluster file of three nodes in a triangle, or of four in a ring."""
    ring = nodes == 4
    environment = dict(word.split("=", 1) for word in (_COMMON + (_RING if ring else _TRIANGLE)).split())
    if ring:
        environment["NCCL_THREAD_THRESHOLDS"] = "-2 -2 -2 1 1 1"
    return {
        "schema_version": 1,
        "promoted_baseline": "2026-10-10-r6d",
        "benchmark_reference": f"manifests/benchmarks/tp{nodes}.json",
        "container": {
            "name": "dsv41-karmic-kraken",
            "image": "vllm-ds41f-kkref:19f2c20ed4d6-r6d",
            "expected_labels": {"local.spark3.vllm.tree": "19f2c20ed4d6"},
            "docker_run_args": list(DOCKER),
            "mounts": [
                [f"{HUB}/snapshots/{REVISION}", "/models", "ro"],
                [f"{HUB}/blobs", "/blobs", "ro"],
                ["{home}/projects/served/cache", "/cache", "rw"],
            ],
        },
        "host": {
            "home": "/home/operator",
            "memguard_gib": 3,
            "memguard_interval_seconds": 2,
            "startup_memguard_gib": 5,
            "startup_memguard_interval_seconds": 0.25,
            "startup_memguard_wait_seconds": 120,
            "kernel": {"release": "7.0.0-1019-nvidia-64k", "page_size": 65536, "memory_saver_required": True},
            "kernel_policy": "config/kernel-trial.json",
        },
        "environment": environment,
        "serve_args": _serve_args(nodes),
        "distributed": {"master_addr": "192.0.2.11", "master_port": "9999"},
        "deployment": {
            "launch_enabled": True,
            "repository": "https://example.org/served.git",
            "branch": "main",
            "path": "projects/served",
            "ready_url": "http://127.0.0.1:8000/v1/models",
            "ready_timeout_seconds": 3600,
        },
        "fabric": {"transport": "oneshot-ring4" if ring else "oneshot-direct"},
        "kernel_backend": "tilelang",
        "nodes_config": "config/nodes.json",
    }


def _serve_args(nodes: int) -> list[str]:
    ring = nodes == 4
    sequences, budget = (16, 8192) if ring else (8, 4096)
    sizes = [*_SIZES, *(range(56, 97, 8) if ring else ())]
    speculative = {
        "method": "dspark",
        "num_speculative_tokens": 5,
        "draft_tensor_parallel_size": nodes,
        "attention_backend": "TILELANG",
        "draft_sample_method": "greedy",
        "rejection_sample_method": "block",
        "adaptive_verification_cost_scale": 2.0,
    }
    compilation = {"cudagraph_mode": "FULL_AND_PIECEWISE", "custom_ops": ["all"], "cudagraph_capture_sizes": sizes}
    return [
        "/models", "--served-model-name", "deepseek-v4.1-flash", "--host", "0.0.0.0", "--port", "8000",
        "--tokenizer-mode", "deepseek_v41", "--tensor-parallel-size", str(nodes), "--block-size", "256",
        "--enable-prefix-caching", "--max-model-len", "1048576" if ring else "524288", "--max-num-seqs", str(sequences),
        "--gpu-memory-utilization", "0.82", "--max-num-batched-tokens", str(budget),
        "--kv-cache-memory-bytes", "11274289152" if ring else "3758096384",
        "--max-cudagraph-capture-size", str(sequences * 6), "--attention-backend", "TILELANG",
        "--linear-backend", "tilelang", "--moe-backend", "tilelang", "--speculative-config", json.dumps(speculative),
        "--compilation-config", json.dumps(compilation), "--prefix-cache-retention-interval", "8192" if ring else "512",
        "--long-prefill-token-threshold", str(budget - sequences * 6), "--async-scheduling", "--nnodes", str(nodes),
        "--no-scheduler-reserve-full-isl", "--limit-mm-per-prompt", '{"image":4}',
    ]  # fmt: skip


def node_map(nodes: int) -> dict[str, Any]:
    """Return the node map of a triangle or ring that is cabled as usual."""
    ports = (("rocep1s0f0", "roceP2p1s0f0"), ("rocep1s0f1", "roceP2p1s0f1"))
    rows = []
    for rank in range(nodes):
        following, before = (rank + 1) % nodes, (rank - 1) % nodes
        subnets = {
            device: f"10.{min(rank, peer) + 1}{max(rank, peer) + 1}.{path}.0/24"
            for peer, devices in ((following, ports[0]), (before, ports[1]))
            for path, device in enumerate(devices, start=1)
        }
        rows.append(
            {
                "name": f"dgx{rank + 1}",
                "rank": rank,
                "management_ip": f"192.0.2.{11 + rank}",
                "head": rank == 0,
                "roce_peer_hcas": {str(following): list(ports[0]), str(before): list(ports[1])},
                "roce_subnets": subnets,
                "roce_gid_index": 3,
            }
        )
    return {"schema_version": 1, "ssh_user": "operator", "nodes": rows}


def encoded(document: dict[str, Any]) -> bytes:
    """Return a document as a file has it."""
    return json.dumps(document, indent=2).encode()
