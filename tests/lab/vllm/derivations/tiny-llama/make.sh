#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Writes the checkpoint's files as Hugging Face's libraries read them; the tokenizer learns from a licence in the root.
set -eu
umask 022

mkdir -p "$DERIVE_OUT"
python3.11 -I -B /in/files/make.py /usr/share/common-licenses/Apache-2.0 "$DERIVE_OUT"
