"""FlashSAC inside other people's programs."""
