"""Narrations, trackers, judges of consistency, drift localisation and re-initialisation, mask tracks."""
