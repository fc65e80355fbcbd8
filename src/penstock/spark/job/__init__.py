"""The pipeline from bronze to gold."""
