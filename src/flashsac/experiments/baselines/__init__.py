"""Other algorithms, by the libraries that people know, on our environments and measured as FlashSAC is."""
