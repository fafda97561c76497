# SPDX-License-Identifier: Apache-2.0
"""From the cluster file and node map of another deployment to a recipe and a site.

Core: no IO.

Every key of what is read is accounted for: placed, the site's, derived, dropped with a reason, or without a place.
"""
