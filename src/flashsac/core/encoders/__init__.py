"""What the networks are given of an observation: a state vector as it is, images through a convolutional encoder.

There is one encoder. It learns from the critic's loss alone; the actor takes its features as they are. Next observations are
encoded by the same weights, without a gradient: the slow target critic has no encoder of its own (as in DrQ-v2).
"""
