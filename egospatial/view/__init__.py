"""Pictures: masks and boxes in the frame, depth in colours, the scene with trajectories in 3D.

Whatever can kill a process (windows, graphics drivers) runs in a child; where it fails a plain renderer draws.
"""
