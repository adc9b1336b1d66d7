"""The target fails twice."""

from __future__ import annotations

from forebay.client import Client, RecordState


def test_a_record_that_fails_twice_is_delivered_on_the_third_attempt_and_settled_once(client: Client) -> None:
    """Three attempts in order, one ack, and the account says so."""
    client.sinks.create("orders", retry_backoff_min_s=0.001, retry_backoff_max_s=0.002)
    with client.publisher("orders") as publisher:
        publisher.send(b"x").result(10)
    attempts: list[int] = []
    with client.subscriber("orders") as subscriber:
        for _ in range(2):
            failing = subscriber.take(10)
            assert failing is not None
            attempts += [record.attempt for record in failing]
            failing.nack(reason="the target broke off")
        third = subscriber.take(10)
        assert third is not None
        attempts += [record.attempt for record in third]
        settled = third.ack(wait=True)
        stats = client.sinks.stats("orders")
        explained = client.sinks.explain("orders", 0)

    account = stats.subscriptions[0].partitions[0]
    assert attempts == [0, 1, 2]
    assert [result.outcome for result in settled] == ["OK"]
    assert (account.acked, account.pending, account.redelivered) == (1, 0, 2)
    assert stats.identity_ok
    assert explained.state is RecordState.ACKED
