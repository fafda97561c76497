#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The toolkit of NVIDIA's wheels where programs look for one: /usr/local/cuda, with the names that a linker asks for.
set -eu
umask 022

wheels=/usr/local/lib/python3.13/dist-packages/nvidia/cu13
home=$DERIVE_OUT/usr/local/cuda

mkdir -p "$home/lib64"
for folder in bin include nvvm; do
  ln -s "$wheels/$folder" "$home/$folder"
done
for library in libcublas.so.13 libcublasLt.so.13 libcudart.so.13 libcurand.so.10 libnvrtc.so.13; do
  ln -s "$wheels/lib/$library" "$home/lib64/$library"
  ln -s "$library" "$home/lib64/${library%.so.*}.so"
done
for library in libcudadevrt.a libcudart_static.a; do
  ln -s "$wheels/lib/$library" "$home/lib64/$library"
done
ln -s lib64 "$home/lib"
