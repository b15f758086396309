"""Errors of the front door.

``FrontDoorError``
  ├─ ``ConfigError``   an unknown key, a value of the wrong type, a config file that cannot be read
  ├─ ``StoreError``    a file of an output folder is missing, truncated, of another version, or cannot be written
  └─ ``LockError``     another run works in the same output folder
"""

from cuda_kernels.errors import InputError


class FrontDoorError(InputError):
    """Base of all errors of ``egospatial``: configuration, output folders, commands."""


class ConfigError(FrontDoorError):
    """A setting is unknown, has the wrong type, or its file cannot be read."""


class StoreError(FrontDoorError):
    """A file of an output folder cannot be read or written."""


class LockError(FrontDoorError):
    """Another run holds the output folder."""
