"""Splats: fit, prune, render depth; depth fusion (static render + sensor for what moves); quality report."""
