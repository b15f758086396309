"""Constant-velocity smoothing of a moving centre (Rauch, Tung & Striebel 1965)."""

import numpy as np
from jaxtyping import Float64


def smooth_centers(
    times_s: Float64[np.ndarray, "N"],
    centers: Float64[np.ndarray, "N 3"],
    covariances: Float64[np.ndarray, "N 3 3"],
    accel_sigma: float,
) -> tuple[Float64[np.ndarray, "N 3"], Float64[np.ndarray, "N 3 3"]]:
    """Kalman filter forwards, RTS smoother backwards; NaN centres are predicted.

    The state is position and velocity, driven by white acceleration. Measurements further than 4 sigma from the
    prediction are down-weighted (covariance scaled up to the threshold), so one bad mask does not bend the path.

    Args:
        times_s: Rising times.
        centers: Measured centres, NaN where there is none; the first must be finite.
        covariances: Of the measurements.
        accel_sigma: Standard deviation of the acceleration (unit / s^2).
    """
    count = len(times_s)
    means = np.zeros((count, 6))
    spreads = np.zeros((count, 6, 6))
    predicted_means, predicted_spreads = np.zeros((count, 6)), np.zeros((count, 6, 6))
    steps = np.zeros((count, 6, 6))
    mean = np.concatenate([centers[0], np.zeros(3)])
    spread = np.zeros((6, 6))
    spread[:3, :3], spread[3:, 3:] = covariances[0], np.eye(3) * (accel_sigma * 0.3) ** 2
    for i in range(count):
        if i > 0:
            transition, noise = _dynamics(float(times_s[i] - times_s[i - 1]), accel_sigma)
            steps[i] = transition
            mean, spread = transition @ mean, transition @ spread @ transition.T + noise
        predicted_means[i], predicted_spreads[i] = mean, spread
        if i > 0 and np.isfinite(centers[i]).all():
            mean, spread = _update(mean, spread, centers[i], covariances[i])
        means[i], spreads[i] = mean, spread
    for i in range(count - 2, -1, -1):
        gain = spreads[i] @ steps[i + 1].T @ np.linalg.inv(predicted_spreads[i + 1])
        means[i] = means[i] + gain @ (means[i + 1] - predicted_means[i + 1])
        spreads[i] = spreads[i] + gain @ (spreads[i + 1] - predicted_spreads[i + 1]) @ gain.T
    return means[:, :3], 0.5 * (spreads[:, :3, :3] + np.swapaxes(spreads[:, :3, :3], 1, 2))


def _dynamics(dt: float, accel_sigma: float) -> tuple[Float64[np.ndarray, "6 6"], Float64[np.ndarray, "6 6"]]:
    transition = np.eye(6)
    transition[:3, 3:] = dt * np.eye(3)
    push = np.concatenate([0.5 * dt**2 * np.eye(3), dt * np.eye(3)])
    return transition, push @ push.T * accel_sigma**2 + 1e-12 * np.eye(6)


def _update(
    mean: Float64[np.ndarray, "6"],
    spread: Float64[np.ndarray, "6 6"],
    center: Float64[np.ndarray, "3"],
    covariance: Float64[np.ndarray, "3 3"],
) -> tuple[Float64[np.ndarray, "6"], Float64[np.ndarray, "6 6"]]:
    off = center - mean[:3]
    innovation = spread[:3, :3] + covariance
    distance2 = float(off @ np.linalg.solve(innovation, off))
    if distance2 > 16.0:
        innovation = innovation + covariance * (distance2 / 16.0 - 1.0)
    gain = np.linalg.solve(innovation, spread[:3, :]).T
    return mean + gain @ off, spread - gain @ innovation @ gain.T
