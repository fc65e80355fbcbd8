"""Messages out of memory on to the disk, and back."""
