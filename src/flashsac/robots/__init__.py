"""Robots as a policy must know them: joints, gains, limits, observations. No torch: a robot's own computer reads
this."""
