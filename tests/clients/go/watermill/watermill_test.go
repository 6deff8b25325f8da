// Watermill: a publisher makes the topic, and each group of subscribers has a queue of its own that gets a copy.
package watermill

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-aws/sns"
	"github.com/ThreeDotsLabs/watermill-aws/sqs"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/aws/aws-sdk-go-v2/aws"
)

const account = "400000000012"

var config = aws.Config{
	BaseEndpoint: aws.String(os.Getenv("SQS_ENDPOINT")),
	Region:       "us-east-1",
	Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: account, SecretAccessKey: "any"}, nil
	}),
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func topicNames(t *testing.T) sns.TopicResolver {
	return must(sns.NewGenerateArnTopicResolver(account, "us-east-1"))(t)
}

func newPublisher(t *testing.T, attributes sns.ConfigAttributes) *sns.Publisher {
	settings := sns.PublisherConfig{AWSConfig: config, TopicResolver: topicNames(t), CreateTopicConfig: attributes}
	publisher := must(sns.NewPublisher(settings, watermill.NopLogger{}))(t)
	t.Cleanup(func() { _ = publisher.Close() })
	return publisher
}

// What a group of subscribers gets.
func subscribe(t *testing.T, topic, group string, queue sqs.QueueConfigAttributes) <-chan *message.Message {
	t.Helper()
	settings := sns.SubscriberConfig{
		AWSConfig: config, TopicResolver: topicNames(t),
		GenerateSqsQueueName: func(context.Context, sns.TopicArn) (string, error) { return group, nil },
	}
	queues := sqs.SubscriberConfig{AWSConfig: config, QueueConfigAttributes: queue}
	subscriber := must(sns.NewSubscriber(settings, queues, watermill.NopLogger{}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { // the end of the context ends the poll that waits
		cancel()
		_ = subscriber.Close()
	})
	return must(subscriber.Subscribe(ctx, topic))(t)
}

func next(t *testing.T, messages <-chan *message.Message) *message.Message {
	t.Helper()
	select {
	case got := <-messages:
		got.Ack()
		return got
	case <-time.After(20 * time.Second):
		t.Fatal("no message")
		return nil
	}
}

func TestEveryGroupGetsACopy(t *testing.T) {
	topic := fmt.Sprintf("events-%d", time.Now().UnixNano())
	publisher := newPublisher(t, sns.ConfigAttributes{})
	must(publisher.CreateTopic(context.Background(), topic))(t)
	groups := []<-chan *message.Message{
		subscribe(t, topic, topic+"-mail", sqs.QueueConfigAttributes{}),
		subscribe(t, topic, topic+"-shop", sqs.QueueConfigAttributes{}),
	}
	sent := map[string]string{}
	for place := range 5 {
		each := message.NewMessage(watermill.NewUUID(), []byte(fmt.Sprintf(`{"größe":%d}`, place)))
		each.Metadata.Set("place", fmt.Sprint(place))
		if err := publisher.Publish(topic, each); err != nil {
			t.Fatal(err)
		}
		sent[each.UUID] = string(each.Payload) + fmt.Sprint(place)
	}
	for _, messages := range groups {
		got := map[string]string{}
		for range sent {
			each := next(t, messages)
			got[each.UUID] = string(each.Payload) + each.Metadata.Get("place")
		}
		if fmt.Sprint(got) != fmt.Sprint(sent) {
			t.Fatalf("want %v, got %v", sent, got)
		}
	}
}

// The publisher makes a topic that is missing when it publishes: NotFound has to be the SDK's type.
func TestAMissingTopicIsMade(t *testing.T) {
	topic := fmt.Sprintf("late-%d", time.Now().UnixNano())
	publisher := newPublisher(t, sns.ConfigAttributes{})
	if err := publisher.Publish(topic, message.NewMessage(watermill.NewUUID(), []byte("first"))); err != nil {
		t.Fatal(err)
	}
	messages := subscribe(t, topic, topic+"-shop", sqs.QueueConfigAttributes{})
	if err := publisher.Publish(topic, message.NewMessage(watermill.NewUUID(), []byte("second"))); err != nil {
		t.Fatal(err)
	}
	if got := string(next(t, messages).Payload); got != "second" {
		t.Fatalf("got %q", got)
	}
}

func TestAGroupOfMessagesKeepsItsOrder(t *testing.T) {
	topic := fmt.Sprintf("steps-%d.fifo", time.Now().UnixNano())
	publisher := newPublisher(t, sns.ConfigAttributes{FifoTopic: "true", ContentBasedDeduplication: "true"})
	must(publisher.CreateTopic(context.Background(), topic))(t)
	messages := subscribe(t, topic, "queue-"+topic, sqs.QueueConfigAttributes{FifoQueue: true})
	for place := range 5 {
		each := message.NewMessage(watermill.NewUUID(), []byte(fmt.Sprint(place)))
		each.Metadata.Set(sns.MessageGroupIdMetadataField, "g")
		if err := publisher.Publish(topic, each); err != nil {
			t.Fatal(err)
		}
	}
	for place := range 5 {
		if got := string(next(t, messages).Payload); got != fmt.Sprint(place) {
			t.Fatalf("want %d, got %s", place, got)
		}
	}
}
