"""Floor 7: the main job, `penstock run`: broker, real clients, analysis and report in one go."""
