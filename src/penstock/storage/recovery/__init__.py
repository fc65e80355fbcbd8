"""What a crash has left, read back."""
