# SPDX-License-Identifier: Apache-2.0
"""``python -m derive``.

Edge: arguments and standard streams.
"""

from derive.cli.main import console

console()
