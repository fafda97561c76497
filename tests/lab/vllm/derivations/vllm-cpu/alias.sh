#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Metadata of a distribution `vllm` without files: vLLM asks for it by this name.
set -eu
umask 022

folder=$DERIVE_OUT/usr/local/lib/python3.11/dist-packages/vllm-$VERSION.dist-info
mkdir -p "$folder"
printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$VERSION" > "$folder/METADATA"
