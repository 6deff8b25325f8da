// Metrics and alarms. The SDK speaks CBOR here, and refuses answers that are not.
package clients

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/smithy-go"
)

var watch = cloudwatch.New(cloudwatch.Options{
	BaseEndpoint: aws.String(os.Getenv("SQS_ENDPOINT")),
	Region:       "us-east-1",
	Credentials:  client.Options().Credentials,
})

func unique(t *testing.T) string {
	return fmt.Sprintf("go-%s-%d", t.Name(), time.Now().UnixNano())
}

func codeOf(t *testing.T, err error) string {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("no error of the service: %v", err)
	}
	return api.ErrorCode()
}

func sumOf(id, namespace, name string, dimensions ...cwtypes.Dimension) cwtypes.MetricDataQuery {
	return cwtypes.MetricDataQuery{Id: &id, MetricStat: &cwtypes.MetricStat{
		Metric: &cwtypes.Metric{Namespace: &namespace, MetricName: &name, Dimensions: dimensions},
		Period: aws.Int32(60), Stat: aws.String("Sum"),
	}}
}

func valuesOf(t *testing.T, queries ...cwtypes.MetricDataQuery) map[string][]float64 {
	t.Helper()
	answer := must(watch.GetMetricData(ctx, &cloudwatch.GetMetricDataInput{
		MetricDataQueries: queries,
		StartTime:         aws.Time(time.Now().Add(-10 * time.Minute)),
		EndTime:           aws.Time(time.Now().Add(2 * time.Minute)),
	}))(t)
	found := map[string][]float64{}
	for _, result := range answer.MetricDataResults {
		found[*result.Id] = result.Values
	}
	return found
}

func TestPutMetricDataAndGetMetricData(t *testing.T) {
	namespace := unique(t)
	at := time.Now().Add(-time.Minute)
	host := cwtypes.Dimension{Name: aws.String("Host"), Value: aws.String("a")}
	must(watch.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: &namespace, MetricData: []cwtypes.MetricDatum{
		{MetricName: aws.String("m"), Value: aws.Float64(2.5), Timestamp: &at, Unit: cwtypes.StandardUnitSeconds},
		{MetricName: aws.String("m"), Values: []float64{1, 2}, Counts: []float64{3, 1}, Dimensions: []cwtypes.Dimension{host}},
	}}))(t)
	doubled := cwtypes.MetricDataQuery{Id: aws.String("e"), Expression: aws.String("a * 2")}
	found := valuesOf(t, sumOf("a", namespace, "m"), sumOf("b", namespace, "m", host), sumOf("c", namespace, "none"), doubled)
	equal(t, map[string][]float64{"a": {2.5}, "b": {5}, "c": {}, "e": {5}}, found)

	answer := must(watch.GetMetricStatistics(ctx, &cloudwatch.GetMetricStatisticsInput{
		Namespace: &namespace, MetricName: aws.String("m"), Period: aws.Int32(60),
		StartTime: aws.Time(at.Add(-time.Hour)), EndTime: aws.Time(at.Add(time.Hour)),
		Statistics:         []cwtypes.Statistic{cwtypes.StatisticAverage, cwtypes.StatisticSampleCount},
		ExtendedStatistics: []string{"p100"},
	}))(t)
	equal(t, 1, len(answer.Datapoints))
	point := answer.Datapoints[0]
	equal(t, at.Truncate(time.Minute).UTC(), point.Timestamp.UTC())
	equal(t, 2.5, *point.Average)
	equal(t, cwtypes.StandardUnitSeconds, point.Unit)
	equal(t, map[string]float64{"p100": 2.5}, point.ExtendedStatistics)

	listed := must(watch.ListMetrics(ctx, &cloudwatch.ListMetricsInput{Namespace: &namespace}))(t)
	equal(t, 2, len(listed.Metrics))
}

// What KEDA's scaler aws-cloudwatch asks for.
func TestGetMetricDataOfAQueue(t *testing.T) {
	url := newQueue(t, nil)
	send(t, url, "hello")
	queue := (*url)[strings.LastIndex(*url, "/")+1:]
	dimension := cwtypes.Dimension{Name: aws.String("QueueName"), Value: &queue}
	found := valuesOf(t, sumOf("sent", "AWS/SQS", "NumberOfMessagesSent", dimension), sumOf("size", "AWS/SQS", "SentMessageSize", dimension))
	equal(t, map[string][]float64{"sent": {1}, "size": {5}}, found)
}

func TestPutMetricAlarmAsTerraformDoes(t *testing.T) {
	name := unique(t)
	input := cloudwatch.PutMetricAlarmInput{
		AlarmName: &name, ComparisonOperator: cwtypes.ComparisonOperatorGreaterThanThreshold,
		EvaluationPeriods: aws.Int32(2), MetricName: aws.String("ApproximateNumberOfMessagesVisible"),
		Namespace: aws.String("AWS/SQS"), Period: aws.Int32(300), Statistic: cwtypes.StatisticAverage,
		Threshold: aws.Float64(5000), ActionsEnabled: aws.Bool(true), TreatMissingData: aws.String("missing"),
		Dimensions: []cwtypes.Dimension{{Name: aws.String("QueueName"), Value: aws.String("orders")}},
		Tags:       []cwtypes.Tag{{Key: aws.String("team"), Value: aws.String("shop")}},
	}
	must(watch.PutMetricAlarm(ctx, &input))(t)
	described := must(watch.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{
		AlarmNames: []string{name}, AlarmTypes: []cwtypes.AlarmType{cwtypes.AlarmTypeMetricAlarm},
	}))(t)
	equal(t, 1, len(described.MetricAlarms))
	alarm := described.MetricAlarms[0]
	equal(t, 5000.0, *alarm.Threshold)
	equal(t, cwtypes.StateValueInsufficientData, alarm.StateValue)
	equal(t, "missing", *alarm.TreatMissingData)
	if time.Since(*alarm.StateUpdatedTimestamp) > time.Hour {
		t.Fatalf("a time of another age: %v", alarm.StateUpdatedTimestamp)
	}
	tags := must(watch.ListTagsForResource(ctx, &cloudwatch.ListTagsForResourceInput{ResourceARN: alarm.AlarmArn}))(t)
	equal(t, "shop", *tags.Tags[0].Value)

	must(watch.SetAlarmState(ctx, &cloudwatch.SetAlarmStateInput{
		AlarmName: &name, StateValue: cwtypes.StateValueAlarm, StateReason: aws.String("test"),
	}))(t)
	history := must(watch.DescribeAlarmHistory(ctx, &cloudwatch.DescribeAlarmHistoryInput{
		AlarmName: &name, HistoryItemType: cwtypes.HistoryItemTypeStateUpdate,
	}))(t)
	equal(t, "Alarm updated from INSUFFICIENT_DATA to ALARM", *history.AlarmHistoryItems[0].HistorySummary)

	must(watch.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{name}}))(t)
	_, err := watch.DeleteAlarms(ctx, &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{name}})
	var gone *cwtypes.ResourceNotFound
	if !errors.As(err, &gone) {
		t.Fatalf("want ResourceNotFound, got %v", err)
	}
}

func TestPutDashboardAndGetDashboard(t *testing.T) {
	name := "go-dashboard"
	body := `{"widgets":[{"type":"text","properties":{"markdown":"hello"}}]}`
	answer := must(watch.PutDashboard(ctx, &cloudwatch.PutDashboardInput{DashboardName: &name, DashboardBody: &body}))(t)
	equal(t, 0, len(answer.DashboardValidationMessages))
	equal(t, body, *must(watch.GetDashboard(ctx, &cloudwatch.GetDashboardInput{DashboardName: &name}))(t).DashboardBody)
	must(watch.DeleteDashboards(ctx, &cloudwatch.DeleteDashboardsInput{DashboardNames: []string{name}}))(t)
	_, err := watch.GetDashboard(ctx, &cloudwatch.GetDashboardInput{DashboardName: &name})
	equal(t, "ResourceNotFound", codeOf(t, err))
	wrong := "{"
	_, err = watch.PutDashboard(ctx, &cloudwatch.PutDashboardInput{DashboardName: &name, DashboardBody: &wrong})
	equal(t, "InvalidParameterInput", codeOf(t, err))
}

func TestErrorsOfCloudWatch(t *testing.T) {
	_, err := watch.PutMetricAlarm(ctx, &cloudwatch.PutMetricAlarmInput{
		AlarmName: aws.String("x"), EvaluationPeriods: aws.Int32(1), ComparisonOperator: "More",
	})
	equal(t, "ValidationError", codeOf(t, err))
	_, err = watch.ListMetricStreams(ctx, &cloudwatch.ListMetricStreamsInput{})
	equal(t, "InvalidAction", codeOf(t, err))
	data := make([]cwtypes.MetricDatum, 1001)
	for at := range data {
		data[at] = cwtypes.MetricDatum{MetricName: aws.String("m"), Value: aws.Float64(1)}
	}
	_, err = watch.PutMetricData(ctx, &cloudwatch.PutMetricDataInput{Namespace: aws.String("App"), MetricData: data})
	equal(t, "InvalidParameterValue", codeOf(t, err))
}
