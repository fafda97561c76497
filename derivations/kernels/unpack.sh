#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Unpacks the one wheel of /in/wheel; it is of Python alone, so no file of it is a program.
set -eu
umask 022

python3.13 -B -m zipfile -e /in/wheel/*.whl "$DERIVE_OUT"
