"""What is said of followers that a majority waits for, and for how long it has to last."""

from penstock.replication.views import AWAY, COPY, DISK, LINK, FollowerWait
from penstock.server.cluster.commit_watch import LOOKS, CommitWatch, in_words


def test_each_cause_has_its_words() -> None:
    waits = [
        FollowerWait("b", DISK, 412),
        FollowerWait("c", LINK, 80),
        FollowerWait("d", COPY, 0),
        FollowerWait("e", AWAY, 4000),
    ]
    assert in_words(waits) == (
        "node b is behind by its disk: 412 ms until it answers; "
        "node c is behind by its link: 80 ms until it answers; "
        "node d is being copied; node e has no link for 4.0 s"
    )


def test_what_lasts_for_more_than_half_of_the_looks_is_told_until_it_is_over() -> None:
    watch = CommitWatch()
    wait = (FollowerWait("b", DISK, 412),)
    for number in range(LOOKS):
        watch.look(wait if number % 2 else ())
    assert watch.words == ""
    for number in range(LOOKS):
        watch.look(wait if number else ())
        assert watch.words == "" or number == LOOKS - 1
    assert watch.words == in_words(wait)
    for _ in range(LOOKS):
        watch.look(())
    assert watch.words == ""
