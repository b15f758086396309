"""A network that is shown the recording's pictures one at a time."""

from dataclasses import dataclass

from geo.recording import CanonicalRecording
from recon.depth_sources.records import DepthPrediction, DepthProvider
from recon.errors import ReconError


@dataclass(frozen=True)
class NetworkDepth:
    """The user's ``DepthProvider`` on the pictures of a canonical recording; nothing is kept between frames."""

    canonical: CanonicalRecording
    provider: DepthProvider

    def has(self, frame: int) -> bool:
        """Every frame that exists."""
        return 0 <= frame < len(self.canonical.timestamps_ns)

    def prediction(self, frame: int) -> DepthPrediction:
        """What the network says of a frame.

        Raises:
            ReconError: it returned something else than a ``DepthPrediction``.
        """
        found = self.provider.depth(self.canonical.frames.read(frame), self.canonical.camera)
        if not isinstance(found, DepthPrediction):
            raise ReconError(
                f"{self.name(frame)} is {type(found).__name__}; expected recon.depth_sources.DepthPrediction"
            )
        return found

    def name(self, frame: int) -> str:
        """What an error calls the prediction of a frame."""
        return f"depth that {type(self.provider).__name__} gave for frame {frame}"
