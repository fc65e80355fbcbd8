"""What has to hold of a simulated broker, asserted between turns."""
