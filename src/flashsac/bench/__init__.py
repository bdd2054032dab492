"""`flashsac bench`: where time and memory go on this machine."""
