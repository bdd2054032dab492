"""The page of a report: its data, its three files for the browser, and the two ways to get it, as a file or live."""
