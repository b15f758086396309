"""The tracker that needs no weights: flow, colour, depth, ego-motion."""
