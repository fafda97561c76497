#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Builds the wheel ds41-kernels from the kernels' sources in /in/sources.
set -eu
umask 022

mkdir /build/wheel
cp /in/files/pyproject.toml /build/wheel
python3.13 -B /in/files/layout.py /in/sources /build/wheel
cd /build/wheel
python3.13 -B -m flit_core.wheel --outdir "$DERIVE_OUT"
