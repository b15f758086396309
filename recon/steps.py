"""How long each step of a stage took."""

import time


class StepClock:
    """Seconds by step: ``mark`` names what ended now. A step that is marked twice adds up."""

    def __init__(self) -> None:
        """The first step begins now."""
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def mark(self, step: str) -> None:
        """This step ended; the next one begins."""
        now = time.monotonic()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now
