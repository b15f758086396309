"""The front door: configuration, stages and their ledger, CLI, viewer, simulator and demo."""
