"""`doctor`: looks at a whole installation and tells what is wrong, area by area."""
