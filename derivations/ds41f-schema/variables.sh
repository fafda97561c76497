#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes which variables the wheel in /in/wheel reads.
set -eu
umask 022

mkdir -p "$DERIVE_OUT/schema/variables"
exec python3.13 -B /in/files/variables.py /in/wheel "$DERIVE_OUT/schema/variables"
