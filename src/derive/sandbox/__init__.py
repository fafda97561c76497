# SPDX-License-Identifier: Apache-2.0
"""The sandbox of build scripts: a specification that is a value, a small runner, and a judge of what came out.

Core: no IO.
"""
