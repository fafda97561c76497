#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of the kernels in /in/sources, without a GPU, and writes what became of each to results.txt.
# SELECT is a marker expression of pytest: "not slow" for the quick ones.
set -eu
umask 022

python3.13 -B /in/files/layout.py /in/sources /build/package

# One thread: sums of floating-point numbers do not then depend on the machine.
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
export PYTHONPATH=/build/package:/in/files
export TILELANG_CACHE_DIR=/build/cache HOME=/build TMPDIR=/build
export DERIVE_RESULTS="$DERIVE_OUT/results.txt"
cd /in/sources
exec python3.13 -B -m pytest -p results -p no:cacheprovider --import-mode=importlib --rootdir=/in/sources \
	--strict-markers -W error::pytest.PytestUnknownMarkWarning -q -m "${SELECT:-}" .
