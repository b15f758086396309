"""Outputs of Project Aria's Machine Perception Services (MPS): trajectory, points, gaze, hands, calibration over time.

| file | reader |
|---|---|
| ``closed_loop_trajectory.csv`` | ``slam.read_closed_loop`` |
| ``global_points.csv.gz``, ``semidense_points.csv.gz`` | ``slam.read_points`` |
| ``eyegaze.csv``, ``general_``/``personalized_eye_gaze.csv``, ``generalized_*gaze.csv`` | ``gaze.read_gaze`` |
| ``hand_tracking_results.csv``, ``wrist_and_palm_poses.csv`` | ``hands.read_hands`` |
| ``online_calibration.jsonl`` | ``calibration.read_online_calibration`` |
| ``summary.json`` | ``calibration.read_summary`` |

Columns are found by name, in any order. A column that is missing, a row of another length, a file that is cut off, a
table without rows: all are errors, never an empty result (the official readers answer such files with an empty list).
Columns that are not known are ignored with a warning. Times are whole microseconds of the device clock and become
int64 nanoseconds without passing through a float (FIELD P4).

Source of the formats: projectaria_tools, "MPS Output" pages and ``core/mps``.
"""
