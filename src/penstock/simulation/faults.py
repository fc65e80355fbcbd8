"""What a simulation says when a law does not hold: the fault, the seed, and how to replay it."""


class LawBroken(Exception):
    """A law of architecture section 5, or a promise to a client, does not hold."""


class SimulationFailed(AssertionError):
    """One run has failed. `scenario`, `seed`: what replays it; `step`: where; `fault`: why."""

    def __init__(self, scenario: str, seed: int, profile: str, step: int, fault: str) -> None:
        self.scenario = scenario
        self.seed = seed
        self.profile = profile
        self.step = step
        self.fault = fault
        super().__init__(
            f"{scenario}, profile {profile}, seed {seed}, step {step}: {fault}\n"
            f"replay: {replay_command(scenario, seed, profile)}"
        )


def replay_command(scenario: str, seed: int, profile: str) -> str:
    """The command that runs exactly this run again."""
    return f"python -m penstock.simulation.main run {scenario} --seed {seed} --profile {profile}"
