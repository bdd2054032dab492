"""From simulation to the robot: the G1 task, what helps a policy cross over, export and deployment."""
