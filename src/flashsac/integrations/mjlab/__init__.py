"""FlashSAC as a runner of mjlab."""
