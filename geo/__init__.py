"""SE3, cameras, rectification, time, recordings and the readers of foreign formats."""
