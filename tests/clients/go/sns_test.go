// Topics, and the queues that are subscribed to them. The SDK checks the MD5 of what it receives from queues.
package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

var notify = sns.New(sns.Options{
	BaseEndpoint: client.Options().BaseEndpoint,
	Region:       "us-east-1",
	Credentials:  client.Options().Credentials,
})

func newTopic(t *testing.T, attributes map[string]string) *string {
	t.Helper()
	name := unique(t)
	if attributes["FifoTopic"] == "true" {
		name += ".fifo"
	}
	return must(notify.CreateTopic(ctx, &sns.CreateTopicInput{Name: &name, Attributes: attributes}))(t).TopicArn
}

// The URL of a new queue, and its subscription.
func subscribed(t *testing.T, topic *string, attributes map[string]string) (*string, *string) {
	t.Helper()
	queue := map[string]string{}
	if strings.HasSuffix(*topic, ".fifo") {
		queue["FifoQueue"] = "true"
	}
	url := newQueue(t, queue)
	made := must(notify.Subscribe(ctx, &sns.SubscribeInput{
		TopicArn: topic, Protocol: aws.String("sqs"), Endpoint: aws.String(arnOf(t, url)), Attributes: attributes,
		ReturnSubscriptionArn: true,
	}))(t)
	return url, made.SubscriptionArn
}

// Messages arrive soon after they were published, and not all at once.
func receiveAll(t *testing.T, url *string, count int) []types.Message {
	t.Helper()
	var got []types.Message
	for len(got) < count {
		more := receive(t, url, 10, 10)
		if len(more) == 0 {
			t.Fatalf("%d of %d messages", len(got), count)
		}
		got = append(got, more...)
		for _, message := range more {
			must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: message.ReceiptHandle}))(t)
		}
	}
	return got
}

func text(value string) snstypes.MessageAttributeValue {
	return snstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

func TestATopicIsCreatedFoundAndChanged(t *testing.T) {
	topic := newTopic(t, map[string]string{"DisplayName": "Größe"})
	name := (*topic)[strings.LastIndex(*topic, ":")+1:]
	equal(t, *topic, *must(notify.CreateTopic(ctx, &sns.CreateTopicInput{Name: &name}))(t).TopicArn)
	must(notify.SetTopicAttributes(ctx, &sns.SetTopicAttributesInput{
		TopicArn: topic, AttributeName: aws.String("DisplayName"), AttributeValue: aws.String("Wasser"),
	}))(t)
	shown := must(notify.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: topic}))(t).Attributes
	equal(t, "Wasser", shown["DisplayName"])
	equal(t, true, json.Valid([]byte(shown["Policy"])))
	must(notify.TagResource(ctx, &sns.TagResourceInput{
		ResourceArn: topic, Tags: []snstypes.Tag{{Key: aws.String("team"), Value: aws.String("water")}},
	}))(t)
	tags := must(notify.ListTagsForResource(ctx, &sns.ListTagsForResourceInput{ResourceArn: topic}))(t).Tags
	equal(t, 1, len(tags))
	equal(t, "water", *tags[0].Value)
	must(notify.DeleteTopic(ctx, &sns.DeleteTopicInput{TopicArn: topic}))(t)
	_, err := notify.GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: topic})
	expectError[*snstypes.NotFoundException](t, err, "NotFound")
}

func TestTopicsAreListedByPages(t *testing.T) {
	made := map[string]bool{}
	for range 101 {
		made[*newTopic(t, nil)] = true
	}
	seen, pages := map[string]bool{}, 0
	for each := sns.NewListTopicsPaginator(notify, &sns.ListTopicsInput{}); each.HasMorePages(); pages++ {
		page := must(each.NextPage(ctx))(t).Topics
		equal(t, true, len(page) <= 100)
		for _, topic := range page {
			equal(t, false, seen[*topic.TopicArn])
			seen[*topic.TopicArn] = true
		}
	}
	equal(t, true, pages >= 2)
	for arn := range made {
		equal(t, true, seen[arn])
	}
}

func TestAQueueGetsWhatItsFilterLetsThrough(t *testing.T) {
	topic := newTopic(t, nil)
	url, subscription := subscribed(t, topic, map[string]string{
		"FilterPolicy": `{"city":["Zürich"],"amount":[{"numeric":[">",10]}]}`,
	})
	raw, _ := subscribed(t, topic, map[string]string{"RawMessageDelivery": "true"})
	body := "größer 水 🚰 <&>\n\t\"quoted\""
	must(notify.Publish(ctx, &sns.PublishInput{TopicArn: topic, Message: aws.String("no attributes")}))(t)
	sent := must(notify.Publish(ctx, &sns.PublishInput{
		TopicArn: topic, Message: &body, Subject: aws.String("Öl"),
		MessageAttributes: map[string]snstypes.MessageAttributeValue{
			"city":   text("Zürich"),
			"amount": {DataType: aws.String("Number"), StringValue: aws.String("12.50")},
			"blob":   {DataType: aws.String("Binary"), BinaryValue: []byte{0, 255, 10, 127}},
		},
	}))(t)

	var envelope struct{ Message, MessageId, Subject string }
	if err := json.Unmarshal([]byte(*receiveAll(t, url, 1)[0].Body), &envelope); err != nil {
		t.Fatal(err)
	}
	equal(t, []string{body, *sent.MessageId, "Öl"}, []string{envelope.Message, envelope.MessageId, envelope.Subject})
	plain := receiveAll(t, raw, 2)
	at := slices.IndexFunc(plain, func(message types.Message) bool { return *message.Body == body })
	equal(t, []byte{0, 255, 10, 127}, plain[at].MessageAttributes["blob"].BinaryValue)
	equal(t, "12.50", *plain[at].MessageAttributes["amount"].StringValue)

	must(notify.Unsubscribe(ctx, &sns.UnsubscribeInput{SubscriptionArn: subscription}))(t)
	listed := must(notify.ListSubscriptionsByTopic(ctx, &sns.ListSubscriptionsByTopicInput{TopicArn: topic}))(t)
	equal(t, 1, len(listed.Subscriptions))
	equal(t, arnOf(t, raw), *listed.Subscriptions[0].Endpoint)
	_, err := notify.GetSubscriptionAttributes(ctx, &sns.GetSubscriptionAttributesInput{SubscriptionArn: subscription})
	expectError[*snstypes.NotFoundException](t, err, "NotFound")
}

func TestABatchOfATopicWithPartialFailure(t *testing.T) {
	topic := newTopic(t, nil)
	url, _ := subscribed(t, topic, map[string]string{"RawMessageDelivery": "true"})
	sent := must(notify.PublishBatch(ctx, &sns.PublishBatchInput{
		TopicArn: topic, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{
			{Id: aws.String("good"), Message: aws.String("one"),
				MessageAttributes: map[string]snstypes.MessageAttributeValue{"city": text("Zürich")}},
			{Id: aws.String("bad"), Message: aws.String("two"), Subject: aws.String("two\nlines")},
		},
	}))(t)
	equal(t, 1, len(sent.Successful))
	equal(t, "good", *sent.Successful[0].Id)
	equal(t, 1, len(sent.Failed))
	equal(t, []string{"bad", "InvalidParameter"}, []string{*sent.Failed[0].Id, *sent.Failed[0].Code})
	equal(t, true, sent.Failed[0].SenderFault)
	got := receiveAll(t, url, 1)[0]
	equal(t, "one", *got.Body)
	equal(t, "Zürich", *got.MessageAttributes["city"].StringValue)
}

func TestATopicKeepsFifoOrderAndDropsDuplicates(t *testing.T) {
	topic := newTopic(t, map[string]string{"FifoTopic": "true", "ContentBasedDeduplication": "true"})
	url, _ := subscribed(t, topic, map[string]string{"RawMessageDelivery": "true"})
	publish := func(body string) *sns.PublishOutput {
		return must(notify.Publish(ctx, &sns.PublishInput{
			TopicArn: topic, Message: &body, MessageGroupId: aws.String("g"),
		}))(t)
	}
	var first *sns.PublishOutput
	last := big.NewInt(0)
	for i := range 5 {
		sent := publish(fmt.Sprintf("m%d", i))
		number, ok := new(big.Int).SetString(*sent.SequenceNumber, 10)
		equal(t, true, ok && number.Cmp(last) > 0)
		last = number
		if first == nil {
			first = sent
		}
	}
	again := publish("m0")
	equal(t, *first.MessageId, *again.MessageId)
	equal(t, *first.SequenceNumber, *again.SequenceNumber)
	for i, message := range receiveAll(t, url, 5) {
		equal(t, fmt.Sprintf("m%d", i), *message.Body)
		equal(t, "g", message.Attributes["MessageGroupId"])
	}
	equal(t, 0, len(receive(t, url, 1, 1)))
}

func TestTypedErrorsOfTopics(t *testing.T) {
	topic := newTopic(t, nil)
	nowhere := *topic + "-nowhere"
	_, err := notify.Publish(ctx, &sns.PublishInput{TopicArn: &nowhere, Message: aws.String("x")})
	expectError[*snstypes.NotFoundException](t, err, "NotFound")
	_, err = notify.CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String("not a name")})
	expectError[*snstypes.InvalidParameterException](t, err, "InvalidParameter")
	_, err = notify.Publish(ctx, &sns.PublishInput{
		TopicArn: topic, Message: aws.String("x"), MessageAttributes: map[string]snstypes.MessageAttributeValue{
			"n": {DataType: aws.String("Number"), StringValue: aws.String("one")},
		},
	})
	expectError[*snstypes.InvalidParameterValueException](t, err, "ParameterValueInvalid")
	same := snstypes.PublishBatchRequestEntry{Id: aws.String("same"), Message: aws.String("x")}
	_, err = notify.PublishBatch(ctx, &sns.PublishBatchInput{
		TopicArn: topic, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{same, same},
	})
	expectError[*snstypes.BatchEntryIdsNotDistinctException](t, err, "BatchEntryIdsNotDistinct")
	_, err = notify.ListTagsForResource(ctx, &sns.ListTagsForResourceInput{ResourceArn: &nowhere})
	expectError[*snstypes.ResourceNotFoundException](t, err, "ResourceNotFound")
	_, err = notify.Subscribe(ctx, &sns.SubscribeInput{TopicArn: topic, Protocol: aws.String("smoke")})
	var api smithy.APIError
	equal(t, true, errors.As(err, &api))
	equal(t, "Invalid parameter: Amazon SNS does not support this protocol string: smoke", api.ErrorMessage())
}
