"""Masks + depth + poses to observations, boxes, 4D trajectories with covariance, relations and events."""
