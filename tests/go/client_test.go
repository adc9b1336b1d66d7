// A client that was generated from the protos publishes, receives, answers and replays against a real broker.
package client

import (
	"bufio"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/forebay/forebayv1"
)

// Time for one test.
const limit = 30 * time.Second

var connection *grpc.ClientConn

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run starts a broker for all tests: the command in FOREBAY, on a free port.
func run(m *testing.M) int {
	program := os.Getenv("FOREBAY")
	if program == "" {
		fmt.Fprintln(os.Stderr, "set FOREBAY to the command forebay; make test-go does")
		return 1
	}
	folder, err := os.MkdirTemp("", "forebay-go-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	broker := exec.Command(program, "serve", "--data-dir", folder+"/data", "--listen", "127.0.0.1:0", "--log-level", "error")
	broker.Stderr = os.Stderr
	out, err := broker.StdoutPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := broker.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		_ = broker.Process.Signal(syscall.SIGTERM)
		_ = broker.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	endpoint := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	if err != nil || endpoint == "" {
		fmt.Fprintf(os.Stderr, "the broker did not start: %q\n", line)
		return 1
	}
	connection, err = connect(endpoint)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer connection.Close()
	return m.Run()
}

// connect opens a connection. A message of Forebay has up to 32 MiB; the default of gRPC is 4 MiB.
func connect(endpoint string) (*grpc.ClientConn, error) {
	return grpc.NewClient(endpoint,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)),
	)
}

// sink creates a sink for one test, and deletes it afterwards.
func sink(t *testing.T, name string) (context.Context, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	sinks := pb.NewSinkServiceClient(connection)
	millisecond := durationpb.New(time.Millisecond)
	settings := &pb.SinkSettings{RetryBackoffMin: millisecond, RetryBackoffMax: millisecond}
	_, err := sinks.CreateSink(ctx, &pb.CreateSinkRequest{Name: name, Settings: settings})
	must(t, err)
	t.Cleanup(func() {
		_, err := sinks.DeleteSink(context.Background(), &pb.DeleteSinkRequest{Name: name, Force: true, DeadLetters: true})
		must(t, err)
	})
	return ctx, name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, found, wanted T, what string) {
	t.Helper()
	if found != wanted {
		t.Fatalf("%s: found %v, wanted %v", what, found, wanted)
	}
}

// page returns a page of records for partition 0; sequence is its number.
func page(sequence uint64, values ...string) *pb.PublishRequest {
	run := &pb.RecordRun{}
	for _, value := range values {
		run.ValueLengths = append(run.ValueLengths, uint32(len(value)))
		run.Values = append(run.Values, value...)
	}
	body, err := proto.Marshal(&pb.RecordPage{Runs: []*pb.RecordRun{run}})
	if err != nil {
		panic(err)
	}
	return &pb.PublishRequest{Request: &pb.PublishRequest_Page{Page: &pb.PublishPage{
		Sequence:    sequence,
		Encoding:    pb.Encoding_ENCODING_RECORDS,
		RecordCount: uint32(len(values)),
		Crc32:       crc32.ChecksumIEEE(body),
		Body:        body,
	}}}
}

// values returns the records of stored pages.
func values(t *testing.T, pages []*pb.StoredPage) (found []string) {
	t.Helper()
	for _, stored := range pages {
		body := &pb.RecordPage{}
		must(t, proto.Unmarshal(stored.Body, body))
		for _, run := range body.Runs {
			rest := run.Values
			for _, length := range run.ValueLengths {
				found = append(found, string(rest[:length]))
				rest = rest[length:]
			}
		}
	}
	return found
}

// publish appends pages by a stream, and returns the receipts.
func publish(ctx context.Context, t *testing.T, sink, writer string, pages ...*pb.PublishRequest) []*pb.Receipt {
	t.Helper()
	stream, err := pb.NewBufferServiceClient(connection).Publish(ctx)
	must(t, err)
	open := &pb.PublishOpen{Sink: sink, WriterId: writer}
	must(t, stream.Send(&pb.PublishRequest{Request: &pb.PublishRequest_Open{Open: open}}))
	opened, err := stream.Recv()
	must(t, err)
	equal(t, opened.GetOpened() != nil, true, "the first answer is `opened`")
	var receipts []*pb.Receipt
	for _, page := range pages {
		must(t, stream.Send(page))
		answered, err := stream.Recv()
		must(t, err)
		if refusal := answered.GetAnswer().GetRefusal(); refusal != nil {
			t.Fatalf("a page was rejected: %v", refusal)
		}
		receipts = append(receipts, answered.GetAnswer().GetReceipt())
	}
	must(t, stream.CloseSend())
	_, err = stream.Recv()
	equal(t, err, io.EOF, "the end of the stream")
	return receipts
}

func TestPagesAreAppendedInOrderAndSentTwiceAreStoredOnce(t *testing.T) {
	ctx, sink := sink(t, "go-publish")

	receipts := publish(ctx, t, sink, "go-1", page(0, "a", "b"), page(1, "c"), page(1, "c"))

	equal(t, receipts[0].GetLastOffset(), 1, "the last offset of the first page")
	equal(t, receipts[1].GetFirstOffset(), 2, "the offset of the second page")
	equal(t, receipts[1].Durability, pb.Durability_DURABILITY_DISK, "the durability")
	equal(t, receipts[2].Duplicate, true, "the receipt of the page that was sent again")
	equal(t, fmt.Sprint(replay(ctx, t, sink, 0)), "[a b c]", "the stored records")
}

func TestDeliveredRecordsAreAckedAndNackedOnesComeAgain(t *testing.T) {
	ctx, sink := sink(t, "go-deliver")
	publish(ctx, t, sink, "go-2", page(0, "a", "b"))
	stream, err := pb.NewBufferServiceClient(connection).Deliver(ctx)
	must(t, err)
	credit := &pb.Credit{Records: 1_000, Bytes: 16 << 20}
	open := &pb.DeliverOpen{Sink: sink, ConsumerId: "go-2", Credit: credit}
	must(t, stream.Send(&pb.DeliverRequest{Request: &pb.DeliverRequest_Open{Open: open}}))

	first := delivery(t, stream)
	equal(t, fmt.Sprint(values(t, first.Pages)), "[a b]", "the delivered records")
	must(t, stream.Send(&pb.DeliverRequest{Request: &pb.DeliverRequest_Ack{Ack: &pb.AckRanges{
		Partition:  first.Partition,
		OwnerEpoch: first.OwnerEpoch,
		Revision:   first.Revision,
		Ranges:     []*pb.OffsetRange{{FirstOffset: 0, LastOffset: 0}},
	}}}))
	must(t, stream.Send(&pb.DeliverRequest{Request: &pb.DeliverRequest_Nack{Nack: &pb.NackRanges{
		Partition:  first.Partition,
		OwnerEpoch: first.OwnerEpoch,
		Revision:   first.Revision,
		Ranges:     []*pb.OffsetRange{{FirstOffset: 1, LastOffset: 1}},
		Action:     &pb.NackRanges_Retry{Retry: &pb.NackRetry{Reason: "the target is away"}},
	}}}))

	again := delivery(t, stream)
	equal(t, again.Ranges[0].FirstOffset, 1, "the offset of the redelivery")
	equal(t, again.Attempts[0].Attempt, 1, "the failed attempts")
	equal(t, again.Resend, true, "`resend` of the redelivery")
	must(t, stream.Send(&pb.DeliverRequest{Request: &pb.DeliverRequest_Ack{Ack: &pb.AckRanges{
		Partition:  again.Partition,
		OwnerEpoch: again.OwnerEpoch,
		Revision:   again.Revision,
		Ranges:     []*pb.OffsetRange{{FirstOffset: 1, LastOffset: 1}},
	}}}))
	must(t, stream.Send(&pb.DeliverRequest{Request: &pb.DeliverRequest_Close{Close: &pb.DeliverClose{}}}))
	must(t, stream.CloseSend())
	drain(t, stream)

	stats, err := pb.NewSinkServiceClient(connection).GetSinkStats(ctx, &pb.GetSinkStatsRequest{Name: sink})
	must(t, err)
	account := stats.Stats.Subscriptions[0].Partitions[0]
	equal(t, account.Acked, 2, "the acked records")
	equal(t, account.Pending, 0, "the pending records")
}

// delivery returns the next delivery; assignments, results and revocations may come before it.
func delivery(t *testing.T, stream pb.BufferService_DeliverClient) *pb.Delivery {
	t.Helper()
	for {
		response, err := stream.Recv()
		must(t, err)
		if found := response.GetDelivery(); found != nil {
			return found
		}
	}
}

// drain receives until the broker ends the stream.
func drain(t *testing.T, stream pb.BufferService_DeliverClient) {
	t.Helper()
	for {
		if _, err := stream.Recv(); err == io.EOF {
			return
		} else {
			must(t, err)
		}
	}
}

// replay returns the records of partition 0 from an offset on.
func replay(ctx context.Context, t *testing.T, sink string, from uint64) (found []string) {
	t.Helper()
	request := &pb.ReplayRequest{Sink: sink, Start: &pb.ReplayRequest_StartOffset{StartOffset: from}}
	stream, err := pb.NewBufferServiceClient(connection).Replay(ctx, request)
	must(t, err)
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return found
		}
		must(t, err)
		for _, stored := range response.GetPages().GetPages() {
			records := values(t, []*pb.StoredPage{stored})
			if from > stored.BaseOffset { // whole pages are sent: cut the first
				records = records[from-stored.BaseOffset:]
			}
			found = append(found, records...)
		}
	}
}

func TestAReplayBeginsAtAnOffsetAndSettlesNothing(t *testing.T) {
	ctx, sink := sink(t, "go-replay")
	publish(ctx, t, sink, "go-3", page(0, "a", "b", "c"), page(1, "d"))

	equal(t, fmt.Sprint(replay(ctx, t, sink, 2)), "[c d]", "the replayed records")

	buffer := pb.NewBufferServiceClient(connection)
	pulled, err := buffer.Pull(ctx, &pb.PullRequest{Sink: sink, MaxRecords: 10, Wait: durationpb.New(5 * time.Second)})
	must(t, err)
	equal(t, len(pulled.Records), 4, "the records that are still to be delivered")
}

func TestAnErrorNamesItsReasonAndItsFacts(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()

	_, err := pb.NewSinkServiceClient(connection).GetSink(ctx, &pb.GetSinkRequest{Name: "absent"})

	equal(t, status.Code(err), codes.NotFound, "the status")
	reason, facts := "", map[string]string{}
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			reason, facts = info.Reason, info.Metadata
		}
	}
	equal(t, reason, "SINK_NOT_FOUND", "the reason")
	equal(t, facts["sink"], "absent", "the fact")
}
