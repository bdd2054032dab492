"""Encoders turn observations into the features that actor and critic see.

An agent has one encoder. It learns from the critic loss and its own auxiliary loss, not from the actor loss. The same
weights encode next observations, without a gradient: the target critic has no encoder of its own (as in DrQ-v2).
"""
