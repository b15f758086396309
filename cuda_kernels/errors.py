"""The root of every known error of the project.

``InputError`` (here, because every room may import this one)
  ├─ ``KernelError``     cuda_kernels: wrong shapes, devices or dtypes for a kernel
  ├─ ``GeoError``        geo: cameras, poses, time, recordings and their readers
  ├─ ``ReconError``      recon
  ├─ ``TrackingError``   tracking
  ├─ ``LiftingError``    lifting
  ├─ ``QuestionError``   spatial_qa
  └─ ``FrontDoorError``  egospatial: configuration, output folders, commands

A command prints a known error as one line and ends with status 2; anything else is our own mistake and
keeps its trace.
"""


class InputError(ValueError):
    """Base of all errors that a user's input, file or setting can cause.

    The text says what is wrong, where (file, frame, object), and what to do about it.
    """


class KernelError(InputError):
    """A kernel was called with arrays that do not fit each other."""
