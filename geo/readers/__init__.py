"""Formats in: every reader ends in the same ``Recording``; the folder decides which, and the choice is explained."""

from geo.readers.registry import READERS, SniffReport, open_recording, sniff

__all__ = ["READERS", "SniffReport", "open_recording", "sniff"]
