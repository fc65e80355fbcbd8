"""What a simulation says when a law does not hold: the fault, the seed, and how to replay it."""


class LawBroken(Exception):
    """A law of architecture section 5, or a promise to a client, does not hold."""


class SimulationFailed(AssertionError):
    """One run has failed. `scenario`, `seed`: what replays it; `step`: where; `fault`: why;
    `without`: parts of a random world that were left out."""

    def __init__(
        self,
        scenario: str,
        seed: int,
        profile: str,
        step: int,
        fault: str,
        without: frozenset[int] = frozenset(),
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.profile = profile
        self.step = step
        self.fault = fault
        self.without = without
        replay = f"python -m penstock.simulation run {scenario} --seed {seed} --profile {profile}"
        if without:
            replay += f" --without {','.join(str(number) for number in sorted(without))}"
        super().__init__(
            f"{scenario}, profile {profile}, seed {seed}, step {step}: {fault}\nreplay: {replay}"
        )
