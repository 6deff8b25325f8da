// The SDK checks the MD5 of every body itself, on send and on receive.
package clients

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

var (
	ctx    = context.Background()
	client = sqs.New(sqs.Options{
		BaseEndpoint: aws.String(os.Getenv("SQS_ENDPOINT")),
		Region:       "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "400000000002", SecretAccessKey: "any"}, nil
		}),
		DisableMessageChecksumValidation: false,
	})
)

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("want %v, got %v", want, got)
	}
}

func queueName(t *testing.T) string {
	return fmt.Sprintf("go-%s-%d", t.Name(), time.Now().UnixNano())
}

func newQueue(t *testing.T, attributes map[string]string) *string {
	t.Helper()
	name := queueName(t)
	if attributes["FifoQueue"] == "true" {
		name += ".fifo"
	}
	return must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes}))(t).QueueUrl
}

func arnOf(t *testing.T, url *string) string {
	t.Helper()
	answer := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	}))(t)
	return answer.Attributes["QueueArn"]
}

func send(t *testing.T, url *string, body string) *sqs.SendMessageOutput {
	t.Helper()
	return must(client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body}))(t)
}

func receive(t *testing.T, url *string, most, wait int32) []types.Message {
	t.Helper()
	return must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: most, WaitTimeSeconds: wait,
		MessageAttributeNames:       []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	}))(t).Messages
}

func receiveOne(t *testing.T, url *string) types.Message {
	t.Helper()
	messages := receive(t, url, 1, 10)
	equal(t, 1, len(messages))
	return messages[0]
}

func TestCreateAndFindAQueue(t *testing.T) {
	url := newQueue(t, map[string]string{"VisibilityTimeout": "45"})
	name := (*url)[strings.LastIndex(*url, "/")+1:]
	equal(t, *url, *must(client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name}))(t).QueueUrl)
	equal(t, []string{*url}, must(client.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &name}))(t).QueueUrls)
	tags := map[string]string{"team": "water"}
	must(client.TagQueue(ctx, &sqs.TagQueueInput{QueueUrl: url, Tags: tags}))(t)
	equal(t, tags, must(client.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: url}))(t).Tags)
	answer := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	}))(t)
	equal(t, "45", answer.Attributes["VisibilityTimeout"])
	must(client.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: url}))(t)
	equal(t, 0, len(must(client.ListQueues(ctx, &sqs.ListQueuesInput{QueueNamePrefix: &name}))(t).QueueUrls))
}

func TestListQueuesByPages(t *testing.T) {
	prefix := queueName(t)
	for i := range 5 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name}))(t)
	}
	pages := sqs.NewListQueuesPaginator(client, &sqs.ListQueuesInput{
		QueueNamePrefix: &prefix, MaxResults: aws.Int32(2),
	})
	var sizes []int
	for pages.HasMorePages() {
		sizes = append(sizes, len(must(pages.NextPage(ctx))(t).QueueUrls))
	}
	equal(t, []int{2, 2, 1}, sizes)
}

func TestSendReceiveDelete(t *testing.T) {
	url := newQueue(t, nil)
	body := "größer 水 🚰 <&>\n\t\"quoted\""
	sent := send(t, url, body)
	got := receiveOne(t, url)
	equal(t, body, *got.Body)
	equal(t, *sent.MessageId, *got.MessageId)
	equal(t, "1", got.Attributes["ApproximateReceiveCount"])
	must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: got.ReceiptHandle}))(t)
	equal(t, 0, len(receive(t, url, 1, 0)))
}

func TestAttributesOfEveryType(t *testing.T) {
	url := newQueue(t, nil)
	attributes := map[string]types.MessageAttributeValue{
		"city":   {DataType: aws.String("String"), StringValue: aws.String("Zürich")},
		"amount": {DataType: aws.String("Number"), StringValue: aws.String("12.50")},
		"money":  {DataType: aws.String("Number.chf"), StringValue: aws.String("7")},
		"blob":   {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255, 10, 127}},
		"image":  {DataType: aws.String("Binary.gif"), BinaryValue: []byte("GIF89a")},
	}
	must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: url, MessageBody: aws.String("x"), MessageAttributes: attributes,
	}))(t)
	got := receiveOne(t, url).MessageAttributes
	equal(t, len(attributes), len(got))
	for name, want := range attributes {
		equal(t, *want.DataType, *got[name].DataType)
		equal(t, aws.ToString(want.StringValue), aws.ToString(got[name].StringValue))
		equal(t, want.BinaryValue, got[name].BinaryValue)
	}
}

func TestBatchWithPartialFailure(t *testing.T) {
	url := newQueue(t, nil)
	sent := must(client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("good"), MessageBody: aws.String("one")},
			{Id: aws.String("bad"), MessageBody: aws.String("\x01")},
		},
	}))(t)
	equal(t, 1, len(sent.Successful))
	equal(t, "good", *sent.Successful[0].Id)
	equal(t, 1, len(sent.Failed))
	equal(t, "bad", *sent.Failed[0].Id)
	equal(t, "InvalidMessageContents", *sent.Failed[0].Code)
	equal(t, true, sent.Failed[0].SenderFault)
	got := receiveOne(t, url)
	deleted := must(client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
		QueueUrl: url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("good"), ReceiptHandle: got.ReceiptHandle},
			{Id: aws.String("bad"), ReceiptHandle: aws.String("nonsense")},
		},
	}))(t)
	equal(t, "good", *deleted.Successful[0].Id)
	equal(t, "ReceiptHandleIsInvalid", *deleted.Failed[0].Code)
}

func TestGiveAMessageBackAtOnce(t *testing.T) {
	url := newQueue(t, nil)
	send(t, url, "again")
	first := receiveOne(t, url)
	must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: url, ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0,
	}))(t)
	second := receiveOne(t, url)
	equal(t, *first.MessageId, *second.MessageId)
	equal(t, "2", second.Attributes["ApproximateReceiveCount"])
}

func TestLongPollWakes(t *testing.T) {
	url := newQueue(t, nil)
	bodies := make(chan string)
	go func() {
		answer, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 20})
		if err != nil || len(answer.Messages) != 1 {
			bodies <- fmt.Sprint(answer, err)
			return
		}
		bodies <- *answer.Messages[0].Body
	}()
	time.Sleep(200 * time.Millisecond) // let the poll reach the server
	started := time.Now()
	send(t, url, "wake up")
	equal(t, "wake up", <-bodies)
	if waited := time.Since(started); waited > 10*time.Second {
		t.Fatalf("the poll slept on for %v", waited)
	}
}

func TestFifoOrderAndDuplicates(t *testing.T) {
	url := newQueue(t, map[string]string{"FifoQueue": "true"})
	sendOne := func(body string) *sqs.SendMessageOutput {
		return must(client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: url, MessageBody: &body, MessageGroupId: aws.String("g"), MessageDeduplicationId: &body,
		}))(t)
	}
	for i := range 5 {
		sendOne(fmt.Sprintf("m%d", i))
	}
	again := sendOne("m0")
	got := receive(t, url, 10, 10)
	equal(t, 5, len(got))
	equal(t, *again.MessageId, *got[0].MessageId)
	last := big.NewInt(0)
	for i, message := range got {
		equal(t, fmt.Sprintf("m%d", i), *message.Body)
		number, ok := new(big.Int).SetString(message.Attributes["SequenceNumber"], 10)
		equal(t, true, ok)
		equal(t, 1, number.Cmp(last))
		last = number
	}
	equal(t, *again.SequenceNumber, got[0].Attributes["SequenceNumber"])
}

func TestDeadLettersAndMoveTasks(t *testing.T) {
	name := queueName(t) + "-dead"
	dead := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name}))(t).QueueUrl
	url := newQueue(t, map[string]string{
		"VisibilityTimeout": "0",
		"RedrivePolicy":     fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":1}`, arnOf(t, dead)),
	})
	send(t, url, "poison")
	receiveOne(t, url)
	equal(t, 0, len(receive(t, url, 1, 0)))
	sources := must(client.ListDeadLetterSourceQueues(ctx, &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead}))(t)
	equal(t, []string{*url}, sources.QueueUrls)
	letter := receiveOne(t, dead)
	equal(t, arnOf(t, url), letter.Attributes["DeadLetterQueueSourceArn"])
	must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: dead, ReceiptHandle: letter.ReceiptHandle, VisibilityTimeout: 0,
	}))(t)

	source := arnOf(t, dead)
	must(client.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &source}))(t)
	equal(t, "poison", *receiveOne(t, url).Body)
	status := ""
	for tries := 0; tries < 100 && status != "COMPLETED"; tries++ {
		time.Sleep(50 * time.Millisecond)
		tasks := must(client.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: &source}))(t)
		status = *tasks.Results[0].Status
	}
	equal(t, "COMPLETED", status)
}

func TestTypedErrors(t *testing.T) {
	url := newQueue(t, nil)
	_, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("nowhere")})
	expectError[*types.QueueDoesNotExist](t, err, "AWS.SimpleQueueService.NonExistentQueue")

	name := (*url)[strings.LastIndex(*url, "/")+1:]
	_, err = client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "7"},
	})
	expectError[*types.QueueNameExists](t, err, "QueueAlreadyExists")

	_, err = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: aws.String("nonsense")})
	expectError[*types.ReceiptHandleIsInvalid](t, err, "ReceiptHandleIsInvalid")

	_, err = client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: url, Entries: []types.SendMessageBatchRequestEntry{},
	})
	expectError[*types.EmptyBatchRequest](t, err, "AWS.SimpleQueueService.EmptyBatchRequest")

	arn := "arn:aws:sqs:us-east-1:400000000002:nowhere"
	_, err = client.StartMessageMoveTask(ctx, &sqs.StartMessageMoveTaskInput{SourceArn: &arn})
	expectError[*types.ResourceNotFoundException](t, err, "ResourceNotFoundException")

	_, err = client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: url, MessageBody: aws.String("x"), DelaySeconds: 901,
	})
	expectError[smithy.APIError](t, err, "InvalidParameterValue")
}

func expectError[Kind smithy.APIError](t *testing.T, err error, code string) {
	t.Helper()
	var kind Kind
	if !errors.As(err, &kind) {
		t.Fatalf("want %T, got %v", kind, err)
	}
	equal(t, code, kind.ErrorCode())
}
