"""From simulation to the robot: its description, the G1 task, what helps a policy cross over. Running there is deploy/."""
