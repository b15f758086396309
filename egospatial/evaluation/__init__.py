"""Against exact truth: depth, masks, resting places, events, questions. One module per measure."""
