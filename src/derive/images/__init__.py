# SPDX-License-Identifier: Apache-2.0
"""Images: trees written as layers, layers and a configuration as an OCI image, an image as a layout on disk.

Core: no IO.
"""
