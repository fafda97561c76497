# SPDX-License-Identifier: Apache-2.0
"""Programs that check and time kernels on the machine that has the GPU.

They travel in a bundle (derive.kernels.bundle) and import nothing of derive: only Python, torch, and what lies beside
them there. The form of what they report: docs/formats/kernel-report.md.

Core: no IO; its modules are edges.
"""
