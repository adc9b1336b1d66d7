"""Table of errors: every reason, with its status on the wire, its text, its advice and its facts.

A row is all that an error needs. The broker raises it as ``BrokerError``, the client as the class of its status; each
adds a class of its own only where a caller acts differently. Codes, documentation and retries derive from the table.

The reason is API: it travels as ``ErrorInfo.reason``, and the facts as ``ErrorInfo.metadata``. The text is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from string import Formatter

from forebay.errors.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Properties of a reason."""

    status: Status | None = None
    """Status on the wire; ``None`` for an error that the client raises itself."""

    text: str = "{}"
    """Text of the broker's error: a template of its facts, and ``{}`` for the problem at hand."""

    advice: str
    """Meaning and recommended reaction."""

    facts: tuple[str, ...] = ()
    """Names of the facts that the text does not contain, and of those that may be absent."""

    retry_after_s: float | None = None
    """Delay in seconds before the same request may succeed; ``None`` if a retry does not help."""


def _invalid(advice: str, *, text: str = "{}", facts: tuple[str, ...] = ("field",)) -> Row:
    return Row(status=Status.INVALID_ARGUMENT, text=text, advice=advice, facts=facts)


def _missing(text: str, advice: str, *, facts: tuple[str, ...] = ()) -> Row:
    return Row(status=Status.NOT_FOUND, text=text, advice=advice, facts=facts)


def _exists(text: str, advice: str) -> Row:
    return Row(status=Status.ALREADY_EXISTS, text=text, advice=advice)


def _unmet(text: str, advice: str, *, facts: tuple[str, ...] = ()) -> Row:
    return Row(status=Status.FAILED_PRECONDITION, text=text, advice=advice, facts=facts)


def _exhausted(text: str, advice: str, *, retry_after_s: float | None, facts: tuple[str, ...] = ()) -> Row:
    return Row(status=Status.RESOURCE_EXHAUSTED, text=text, advice=advice, retry_after_s=retry_after_s, facts=facts)


def _superseded(text: str, advice: str, *, facts: tuple[str, ...] = ()) -> Row:
    return Row(status=Status.ABORTED, text=text, advice=advice, facts=facts)


def _unavailable(text: str, advice: str, *, retry_after_s: float) -> Row:
    return Row(status=Status.UNAVAILABLE, text=text, advice=advice, retry_after_s=retry_after_s)


def _of_client(advice: str, *, retry_after_s: float | None = None) -> Row:
    return Row(advice=advice, retry_after_s=retry_after_s)


@unique
class Reason(Enum):
    """Reason of an error. The name of a member is its name on the wire."""

    # -- the request is wrong: the same request never succeeds
    INVALID_REQUEST = _invalid(
        "The request is not a message of its type. Encode it with the schema of this version.", facts=()
    )
    NUMBER_OUT_OF_RANGE = _invalid(
        "An offset, number, time or duration is out of the range that can be stored. Send one within its range.",
        text="{field} is {found}: {low} to {high} are allowed",
    )
    REQUEST_TOO_LARGE = _invalid(
        "A request has more bytes or items than its call accepts. Divide it.",
        text="the request has {found} {}; at most {bound} are allowed: divide it",
    )
    INVALID_SINK_NAME = _invalid(
        "The name of a sink has an invalid form, or is reserved. Choose another one.", facts=("field", "allowed")
    )
    INVALID_SETTING = _invalid(
        "A setting is unknown or out of bounds, or would lower the number of partitions. Correct it.",
        text="{field} = {value}: must be {allowed}",
    )
    INVALID_PAGE = _invalid(
        "A page or its records are inconsistent or exceed a limit. Correct the records.", facts=("field", "base_offset")
    )
    PAGE_CORRUPT = _invalid(
        "A page does not match its checksum: it was damaged in transit. Encode it and send it again.",
        text="the page's CRC-32 is {found}, stated is {stated}",
        facts=(),
    )
    RECORD_TOO_LARGE = _invalid(
        "One record exceeds a limit. Waiting does not help: split the record, or raise the limit.",
        text="{} of {size} bytes is over the bound of {bound} bytes",
        facts=(),
    )
    INVALID_PARTITION = _invalid(
        "The sink has no such partition. Use one that exists.",
        text="partition {partition} does not exist; the sink has 0 to {}",
        facts=("field", "partitions"),
    )
    INVALID_RANGE = _invalid(
        "A range of offsets is empty, reversed or out of bounds, or there are too many ranges. Correct them."
    )
    INVALID_OPEN = _invalid("The stream did not begin with a valid opening message. Open it as the rpc says.")
    INVALID_CREDIT = _invalid("A credit is out of bounds. Correct it.")
    INVALID_NACK = _invalid("A field of a nack is out of bounds. Correct it.")
    INVALID_PULL = _invalid("A field of a pull is out of bounds. Correct it.")
    INVALID_INTERVAL = _invalid("An interval is out of bounds. Correct it.")
    INVALID_PAGE_TOKEN = _invalid(
        "The page token of a list request was not issued by this broker for it. Start the list again."
    )
    INVALID_SUBSCRIPTION_NAME = _invalid("The name of a subscription has an invalid form. Choose another one.")
    INVALID_POSITION = _invalid("A position in a sink is missing or ambiguous. Name one.")
    INVALID_POSITION_KEY = _invalid("The key or document of a saved position has an invalid form. Correct it.")
    INVALID_FILTER = _invalid("A filter of dead letters is contradictory or invalid. Correct it.")
    INVALID_EPOCH = _invalid(
        "A stage or commit is invalid: a bad name or number, a repeated epoch, or sinks of several brokers. Correct it."
    )
    INVALID_SCHEMA = _invalid(
        "A schema is empty or too large, or the sink has too many schemas. Write fewer columns, or to another sink."
    )
    INVALID_LEASE = _invalid("The holder, the duration or the size of a lease is out of bounds. Correct it.")

    # -- the object does not exist
    SINK_NOT_FOUND = _missing("there is no sink {sink!r}", "The sink does not exist. Create it first.")
    SUBSCRIPTION_NOT_FOUND = _missing(
        "sink {sink!r} has no subscription {subscription!r}{}",
        "The sink has no such subscription. Create it, or use one that exists.",
    )
    EPOCH_NOT_FOUND = _missing(
        "producer {producer!r} has no {}",
        "The epoch was never committed, or its records are gone and a later one was committed. Read the last one.",
    )
    SCHEMA_NOT_FOUND = _missing(
        "version {version} of the schema of sink {sink!r} {}",
        "The sink has no such version of its schema, or lost it when its store was damaged. Read the latest one.",
        facts=("latest",),
    )

    # -- the object exists and differs
    SINK_EXISTS = _exists(
        "sink {sink!r} exists with other settings: {differs}",
        "The sink exists with other settings. Use them (in Python `exist_ok=True`), or update the sink.",
    )
    SUBSCRIPTION_EXISTS = _exists(
        "sink {sink!r} has a subscription {subscription!r} that was created with another start",
        "The subscription exists with another start. Use it, seek it, or choose another name.",
    )
    ALREADY_COMMITTED = _exists(
        "epoch {epoch} of producer {producer!r} is committed",
        "The epoch of the staged pages is committed already. No action is needed.",
    )

    # -- the current state does not allow the request
    POSITION_DAMAGED = _unmet(
        "the stored position {key} is damaged",
        "A stored position cannot be read. Delete it to begin at the start point of the consumer.",
    )
    NO_BACKUP_TARGET = _unmet(
        "the broker has no target for backups",
        "The broker makes backups only into its own target. Set `backup_target` in its settings and restart it.",
    )
    NO_JOURNAL = _unmet(
        "the broker has no journal, and no other broker follows it",
        "Only a broker with a journal hands over. Set `journal` in its settings, and start a follower.",
    )
    BACKUP_RUNNING = _unmet(
        "backup {backup} is in progress",
        "A broker makes one backup at a time. Wait until it is complete.",
    )
    BACKUP_FAILED = _unmet(
        "{}",
        "The backup is incomplete. Remove the cause that the text names, and make another one.",
    )
    ROWS_NOT_DECODABLE = _unmet(
        "the rows cannot be decoded: the broker is installed without pyarrow. Install it there with "
        "pip install 'forebay[arrow]' and restart the broker, or read the rows with Deliver or Replay",
        "The sink holds rows with a schema, and the broker has no pyarrow to decode single ones. Install the extra "
        "`arrow` beside the broker and restart it, or read the rows with `Deliver` or `Replay`.",
    )
    SINK_NOT_EMPTY = _unmet(
        "sink {sink!r} still holds {pending} unsettled records",
        "The sink has unsettled records. Wait until they are delivered, or delete it with `force`.",
    )
    SINK_REPLACED = _unmet(
        "sink {sink!r} was deleted and recreated: the request names incarnation {named!r}, the current one is "
        "{current!r}. Nothing was done. Offsets, positions, tokens and schema versions of the former sink are "
        "invalid: read the sink again and start over",
        "The sink was deleted and recreated, and the request referred to the former one: its offsets, tokens, "
        "leased sets and schema versions are invalid now. Nothing was changed. Get the sink and start over.",
    )
    NOT_OWNER = _unmet(
        "sink {sink!r} is not in shard {here!r} of this broker: the name belongs to shard {shard!r}, whose last known "
        "owner is at {endpoint}",
        "The broker owns another shard, and nothing was done. Connect to `forebay://HOST:PORT,...` with any brokers of "
        "the fleet: such a client finds the shard of each sink.",
    )
    SUBSCRIPTION_REPLACED = _unmet(
        "subscription {subscription!r} of sink {sink!r} was deleted and recreated: the request names incarnation "
        "{named!r}, the current one is {current!r}. Nothing was done. Positions, deliveries and leased sets of the "
        "former one are invalid: read the subscription again and start over",
        "The subscription was deleted and recreated, and the request referred to the former one. Nothing was "
        "settled or moved. Get the subscription and start over.",
    )
    DEFAULT_SUBSCRIPTION = _unmet(
        "the default subscription of sink {sink!r} cannot be deleted",
        "`default` cannot be deleted; it lives as long as its sink. Seek it to `latest` instead.",
    )
    SUBSCRIPTION_IN_USE = _unmet(
        "{} partition {partition} of subscription {subscription!r} of sink {sink!r}",
        "A consumer owns a partition of the subscription, or a holder has a lease on it. Stop the consumer or release "
        "the lease, or use another subscription.",
        facts=("consumer_id", "holder"),
    )
    STAGED_INCOMPLETE = _unmet(
        "token {token!r} in sink {sink!r} is not complete: {}",
        "Pages named by a commit are not staged; nothing became visible. Stage and commit the epoch again.",
    )
    STAGING_UNSUPPORTED = _unmet(
        "sink {sink!r} accepts no staged pages: {}",
        "The sink stores nothing on disk, or holds dead letters. Publish unstaged, or use another sink.",
    )
    ORDERING_STRICT = _unmet(
        "sink {sink!r} has STRICT ordering, which has no retry queue to lease from; set its ordering to RELAXED",
        "The sink is in STRICT order: failed records hold back the rest, and there is no retry queue. Set its "
        "`ordering` to `RELAXED`.",
    )

    # -- no room
    SINK_FULL = _exhausted(
        "sink {sink!r} is full: {limit} is {bound}, {used} used{}",
        "A limit of the sink is reached and its policy is REJECT. Wait for deliveries, or raise the limit.",
        facts=("staged",),
        retry_after_s=0.25,
    )
    DISK_FULL = _exhausted(
        "{free} bytes are free on the disk, the reserve is {reserve}",
        "The broker's disk is full up to its reserve. Free space; appends then resume without a restart.",
        retry_after_s=1.0,
    )
    BROKER_FULL = _exhausted(
        "the sinks hold {used} bytes; max_broker_bytes is {bound}",
        "All sinks together have reached the broker's limit. Wait for deliveries, or raise the limit.",
        retry_after_s=1.0,
    )
    MEMORY_OVERLOADED = _exhausted(
        "memory is over its high watermark: {waiting} bytes wait for their sync, the bound is {bound}",
        "The broker's memory is above its high watermark, so fewer bytes may wait. A publisher retries automatically.",
        retry_after_s=0.25,
    )
    TOO_MANY_WAITING = _exhausted(
        "{waiting} bytes wait for their sync; the bound is {bound}",
        "The broker has reached its limit of bytes that await a sync. Retry shortly.",
        retry_after_s=0.05,
    )
    JOURNAL_AWAY = _exhausted(
        "the journal of the shard does not answer, and {waiting} bytes wait for it; the bound is {bound}",
        "The journal of the shard does not answer, and the broker has reached its limit of bytes that wait for it. "
        "Nothing is lost. Appends resume once it answers; a publisher retries automatically.",
        retry_after_s=1.0,
    )
    JOURNAL_FULL = _exhausted(
        "the journal of the shard is full: {}",
        "The journal of the shard has no room above its reserve, or has used up its quota. Nothing is lost. Make room "
        "for the journal, or wait for deliveries; appends then resume without a restart.",
        retry_after_s=1.0,
    )
    TOO_MANY_SINKS = _exhausted(
        "the broker holds at most {bound} {what}",
        "The broker has reached its limit of sinks or partitions. Delete a sink, or raise the limit.",
        retry_after_s=None,
    )
    TOO_MANY_SUBSCRIPTIONS = _exhausted(
        "sink {sink!r} has {bound} subscriptions, which is the maximum",
        "The sink has reached its limit of subscriptions. Delete one.",
        retry_after_s=None,
    )
    TOO_MANY_POSITIONS = _exhausted(
        "the broker has {positions} saved positions; at most {limit} and 64 MiB fit",
        "The broker has reached its limit of saved positions. Delete those of consumers that do not exist any more.",
        retry_after_s=None,
    )
    TOO_MANY_STREAMS = _exhausted(
        "the broker serves at most {bound} {}",
        "The broker has reached its limit of streams, or a subscription that of consumers. Close one, or retry later.",
        retry_after_s=1.0,
    )
    READER_TOO_SLOW = _exhausted(
        "the stream was ended: its reader left {held} bytes unread, and other streams need the memory",
        "The broker closed a stream whose reader was too slow, to free memory for others. Open it again.",
        retry_after_s=5.0,
    )
    REQUEST_TOO_SLOW = _exhausted(
        "the request was ended before it was complete: {held} bytes of such requests are held for its connection, and "
        "the bound of all connections, {bound}, is reached",
        "The broker ended a request that was not complete, to free memory for others. Nothing was done. Send it again.",
        retry_after_s=2.0,
    )
    RATE_LIMITED = _exhausted(
        "principal {principal!r} exceeds its limit: {limit} is {bound}",
        "The principal of the caller exceeds its rate limit. Retry after the stated delay.",
        retry_after_s=0.25,
    )

    # -- the position does not exist
    OFFSET_TRIMMED = Row(
        status=Status.OUT_OF_RANGE,
        text="offset {requested} was trimmed; the earliest available offset is {earliest}",
        advice="The requested position is trimmed. Restart at `earliest`, or accept the gap.",
        facts=("next",),
    )
    OFFSET_AHEAD = Row(
        status=Status.OUT_OF_RANGE,
        text="offset {requested} is beyond the end; the next offset is {next}",
        advice="The requested position is above the next offset, where no record exists yet. Use a lower one.",
        facts=("earliest",),
    )

    # -- access
    TOKEN_REFUSED = Row(
        status=Status.UNAUTHENTICATED,
        text="the call {}; this broker requires `authorization: Bearer TOKEN`",
        advice="The broker requires a token, and it is missing or unknown. Set a token that the broker knows.",
        facts=("token",),
    )
    PERMISSION_DENIED = Row(
        status=Status.PERMISSION_DENIED,
        text="principal {principal!r} does not have the right '{right}' {}",
        advice="The caller is authenticated and lacks the right. Grant it in the broker's file of credentials, or ask "
        "the operator of the proxy in front of the broker.",
        facts=("sink",),
    )

    # -- a newer caller has taken over, or a sequence is broken
    WRITER_FENCED = _superseded(
        "writer {writer_id!r} {}; {epoch} is fenced",
        "The writer is fenced: a newer epoch of it was opened, or the broker expired it or its staged pages. Stop, or "
        "open a new publisher.",
    )
    SEQUENCE_GAP = _superseded(
        "partition {partition} expects sequence {expected}, not {sequence}",
        "An earlier page of this writer is missing. Go back to the page `expected`; the Python publisher does so.",
    )
    SEQUENCE_CONFLICT = _superseded(
        "sequence {sequence} of partition {partition} was used for other data",
        "A sequence number was used for other data: two publishers share a `writer_id`. Use a unique id for each "
        "publisher.",
    )
    CONSUMER_REPLACED = _superseded(
        "another stream opened as consumer {consumer_id!r}",
        "Another subscriber opened with the same `consumer_id`. Use a unique id for each subscriber.",
    )
    EPOCH_FENCED = _superseded(
        "epoch {epoch} of producer {producer!r} is fenced: {}",
        "The epoch is below the last one, or a newer run of the producer has started. Stop: committed records stay "
        "committed.",
    )
    EPOCH_CONFLICT = _superseded(
        "epoch {epoch} of producer {producer!r}: {}",
        "The same run committed the epoch with other tokens, or only some epochs of this commit before. Use a "
        "`write_name` of its own for each write.",
    )
    EPOCH_CONTENT_CONFLICT = _superseded(
        "epoch {epoch} of producer {producer!r} was committed with {}; nothing was changed. Use a distinct write_name "
        "for each write; or repeat the epoch with the same records; or commit it with the check NONE, which keeps the "
        "committed records and discards those of the repeat",
        "The epoch was committed with other records. Repeat it with the same records, or keep the committed ones with "
        "the check `NONE`.",
        facts=("stored_records", "sent_records", "stored_digest", "sent_digest"),
    )
    PRODUCER_CHANGED = _superseded(
        "producer {holder!r} writes to sink {sink!r} as {write_name!r}; {producer!r} is another one. If its checkpoint "
        "was deleted, its records may be written twice: set takeover to accept that. If both are to write, give one of "
        "them a write name of its own",
        "Another producer has the write name. Take it over with `takeover`, or use another write name.",
    )
    EPOCH_AHEAD = _superseded(
        "sink {sink!r} was restored from a backup: producer {producer!r} continues with epoch {epoch}, and the backup "
        "ends before epoch {next}. The epochs between are lost. Write them again, or set takeover to accept the loss",
        "The broker was restored from a backup that is older than the last epochs of the producer. Repeat the producer "
        "from the epoch `next`, or accept the loss of the epochs between with `takeover`.",
    )
    SCHEMA_CHANGED = _superseded(
        "the latest version of the schema of sink {sink!r} is {latest}, compared was {compared}",
        "Another client registered a version concurrently. Get the latest version and compare again.",
    )
    POSITION_CONFLICT = _superseded(
        "position {key} has version {stored!r}, expected was {expected!r}",
        "Another consumer wrote the position concurrently. Read it, then decide.",
    )

    # -- the broker is not available now
    DRAINING = _unavailable(
        "the broker is stopping",
        "The broker is stopping. Retry at its successor. Nothing of the request was executed.",
        retry_after_s=1.0,
    )
    SESSION_TIMED_OUT = _unavailable(
        "consumer {consumer_id!r} has not answered a ping for {}: its process is stopped or hangs",
        "The broker closed the session, because the consumer did not respond in time. Reconnect; its records are "
        "redelivered without a failed attempt.",
        retry_after_s=0.1,
    )
    STORE_FENCED = _unavailable(
        "the store is fenced after a failure: {cause}",
        "A write or sync of the broker's disk failed. Requests are rejected until the broker is restarted.",
        retry_after_s=2.0,
    )
    READ_FAILED = _unavailable(
        "a read of the store failed and will be retried: {cause}",
        "The broker's disk did not answer a read. Nothing is lost; the same request may succeed later.",
        retry_after_s=1.0,
    )

    # -- errors of the client itself
    CREDENTIALS_UNUSABLE = _of_client(
        "A certificate, key or token cannot be read, or must not be sent on this connection. The text names it and "
        "says what to do."
    )
    HANDSHAKE_FAILED = _of_client(
        "TLS failed: only one side uses TLS, or a certificate is not trusted. A retry does not help; the text says "
        "what to set."
    )
    UNREACHABLE = _of_client(
        "The broker cannot be reached. Check the endpoint, or retry when it is up.", retry_after_s=0.0
    )
    DEADLINE_EXCEEDED = _of_client(
        "No answer within the time limit; the outcome of the request is unknown.", retry_after_s=0.0
    )
    PROTOCOL_VIOLATION = _of_client(
        "The broker's answer violates the wire contract: client and broker versions are incompatible."
    )
    CLIENT_FAULT = _of_client(
        "Unclassified failure of the client library: a defect. Open a new publisher or subscriber, and report it."
    )
    ARROW_NOT_INSTALLED = _of_client(
        "The sink holds rows with a schema, and pyarrow is not installed. Install the extra `arrow`."
    )
    GAP = _of_client('A replay reached a gap. Continue at `resume_offset`, or read with `on_gap="yield"`.')
    POSITION_FENCED = _of_client(
        "Another consumer with the same name took the partition over. Stop this one, or give it another name."
    )
    POSITION_UNUSABLE = _of_client(
        "A saved position was trimmed, is ahead of the end, or belongs to a deleted sink. Choose with `on_misfit`."
    )
    POSITION_STORE_UNAVAILABLE = _of_client(
        "The position store did not answer in time, or refused for now. The write may have taken effect.",
        retry_after_s=0.0,
    )
    POSITION_STORE_REFUSED = _of_client(
        "The position store refused the credentials or the request. Correct the settings of the store."
    )
    DELIVERY_TIMEOUT = _of_client(
        "Records were not durable within `delivery_timeout_s`. If they are sent again, they may be stored twice."
    )
    FLUSH_TIMEOUT = _of_client("`flush` timed out. The records are still being sent; flush again, or close.")
    BUFFER_FULL = _of_client("The buffer of the publisher is full. Send again later, or drop the record.")
    PUBLISH_ABANDONED = _of_client(
        "The publisher was closed before the records were durable; they may or may not be stored."
    )
    PUBLISHER_CLOSED = _of_client("The publisher is closed. Open a new one.")
    SUBSCRIBER_CLOSED = _of_client("The subscriber is closed. Open a new one.")
    CLIENT_CLOSED = _of_client("The client is closed. Open a new one.")
    USED_AFTER_FORK = _of_client(
        "A publisher, subscriber or replay that was opened before `fork` was used in the child. Open it in the child."
    )
    FOREIGN_LOOP = _of_client(
        "An asyncio client was used outside of the event loop that used it first. Open a client in each event loop."
    )

    def __init__(self, row: Row) -> None:
        self.status = row.status
        self.text = row.text
        self.advice = row.advice
        self.retry_after_s = row.retry_after_s

    @property
    def is_retryable(self) -> bool:
        """True if the same request may succeed later."""
        return self.retry_after_s is not None

    @property
    def facts(self) -> tuple[str, ...]:
        """Names of all facts: those of the text in their order, then the others."""
        named = [name for _, name, _, _ in Formatter().parse(self.text) if name]
        return tuple(dict.fromkeys([*named, *self.value.facts]))


def reason_of(name: str) -> Reason | None:
    """Return the reason of that name, ``None`` if this version does not know it."""
    return Reason.__members__.get(name)
