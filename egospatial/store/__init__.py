"""The output folder: one module per file, each with ``write`` and ``read``; see docs/outputs.md.

Every file is written to a temporary name in its own folder, flushed, renamed, and the folder flushed: a killed
run leaves the old file or the new one. No file is ever opened for writing in place, none holds a pickle.
"""
