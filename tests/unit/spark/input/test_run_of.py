"""What several runs say of themselves together."""

from penstock.spark.input.pipeline_input import PipelineInput, run_of
from penstock.spark.schema.formats import BrokerLife, RunDescription


class Place(PipelineInput):
    def __init__(self, node: str, **names: str) -> None:
        self.said = RunDescription(names=names, brokers=(BrokerLife(node, node),))

    def run(self) -> RunDescription:
        return self.said


def test_clients_with_one_address_at_two_nodes_keep_their_names() -> None:
    run = run_of([Place("a", port1="shop", port2="till"), Place("b", port1="bank")])
    assert run.clients_at("a") == {"port1": "shop", "port2": "till"}
    assert run.clients_at("b") == {"port1": "bank"}
    assert run.clients_at("c") == {}, "a broker that is nobody's run"


def test_at_two_brokers_of_one_node_they_have_none() -> None:
    run = run_of([Place("a", port1="shop", port2="till"), Place("a", port1="bank")])
    assert run.clients_at("a") == {"port2": "till"}


def test_one_run_is_as_it_says() -> None:
    assert run_of([Place("a", port1="shop")]).clients_at("a") == {"port1": "shop"}
