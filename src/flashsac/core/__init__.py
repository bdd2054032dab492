"""The FlashSAC algorithm. It knows no simulator, file or log."""
