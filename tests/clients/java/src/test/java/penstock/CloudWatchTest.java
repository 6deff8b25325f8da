package penstock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchClient;
import software.amazon.awssdk.services.cloudwatch.model.CloudWatchException;
import software.amazon.awssdk.services.cloudwatch.model.ComparisonOperator;
import software.amazon.awssdk.services.cloudwatch.model.Dimension;
import software.amazon.awssdk.services.cloudwatch.model.HistoryItemType;
import software.amazon.awssdk.services.cloudwatch.model.MetricAlarm;
import software.amazon.awssdk.services.cloudwatch.model.MetricDataQuery;
import software.amazon.awssdk.services.cloudwatch.model.MetricDatum;
import software.amazon.awssdk.services.cloudwatch.model.StandardUnit;
import software.amazon.awssdk.services.cloudwatch.model.StateValue;
import software.amazon.awssdk.services.cloudwatch.model.Statistic;

/** Metrics and alarms, in the protocol that the SDK chooses itself. */
class CloudWatchTest {
  /** The content types of all requests. */
  private static final Set<String> SPOKEN = ConcurrentHashMap.newKeySet();

  private static final ExecutionInterceptor LISTENER =
      new ExecutionInterceptor() {
        @Override
        public void beforeTransmission(
            Context.BeforeTransmission context, ExecutionAttributes attributes) {
          context.httpRequest().firstMatchingHeader("Content-Type").ifPresent(SPOKEN::add);
        }
      };

  private static final CloudWatchClient WATCH =
      CloudWatchClient.builder()
          .endpointOverride(URI.create(System.getenv("SQS_ENDPOINT")))
          .region(Region.US_EAST_1)
          .credentialsProvider(
              StaticCredentialsProvider.create(AwsBasicCredentials.create("400000000001", "any")))
          .httpClientBuilder(UrlConnectionHttpClient.builder())
          .overrideConfiguration(o -> o.addExecutionInterceptor(LISTENER))
          .build();

  @AfterAll
  static void close() {
    WATCH.close();
    assertEquals(1, SPOKEN.size(), "one protocol: " + SPOKEN);
  }

  private static String unique() {
    return "java-" + UUID.randomUUID();
  }

  private static MetricDataQuery sum(String id, String namespace, Dimension... dimensions) {
    return MetricDataQuery.builder()
        .id(id)
        .metricStat(
            s ->
                s.metric(m -> m.namespace(namespace).metricName("Errors").dimensions(dimensions))
                    .period(60)
                    .stat("Sum"))
        .build();
  }

  private static List<Double> values(MetricDataQuery... queries) {
    return WATCH
        .getMetricData(
            r ->
                r.metricDataQueries(queries)
                    .startTime(Instant.now().minus(Duration.ofMinutes(10)))
                    .endTime(Instant.now().plus(Duration.ofMinutes(2))))
        .metricDataResults()
        .get(0)
        .values();
  }

  private static void putAlarm(String name, String namespace) {
    WATCH.putMetricAlarm(
        r ->
            r.alarmName(name)
                .namespace(namespace)
                .metricName("Errors")
                .statistic(Statistic.SUM)
                .period(60)
                .evaluationPeriods(2)
                .threshold(1.5)
                .comparisonOperator(ComparisonOperator.GREATER_THAN_THRESHOLD)
                .treatMissingData("ignore")
                .tags(t -> t.key("team").value("shop")));
  }

  private static List<MetricAlarm> described(String name) {
    return WATCH.describeAlarms(r -> r.alarmNames(name)).metricAlarms();
  }

  @Test
  void putMetricDataAndGetMetricData() {
    String namespace = unique();
    Dimension shop = Dimension.builder().name("Shop").value("Köln").build();
    Instant at = Instant.now().minus(Duration.ofMinutes(2));
    MetricDatum plain =
        MetricDatum.builder()
            .metricName("Errors")
            .dimensions(shop)
            .timestamp(at)
            .unit(StandardUnit.COUNT)
            .value(2.5)
            .build();
    MetricDatum counted =
        plain.toBuilder().value(null).values(1.0, 3.0).counts(4.0, 1.0).build();
    WATCH.putMetricData(r -> r.namespace(namespace).metricData(plain, counted));
    assertEquals(List.of(9.5), values(sum("m", namespace, shop)));
    assertEquals(List.of(), values(sum("m", namespace)), "without the dimension it is another metric");
    MetricDataQuery hidden = sum("m", namespace, shop).toBuilder().returnData(false).build();
    MetricDataQuery doubled = MetricDataQuery.builder().id("e").expression("m * 2").build();
    assertEquals(List.of(19.0), values(hidden, doubled));
    assertEquals(
        List.of(shop),
        WATCH.listMetrics(r -> r.namespace(namespace)).metrics().get(0).dimensions());
  }

  @Test
  void anAlarmThroughItsLife() {
    String name = unique();
    Instant before = Instant.now().minusSeconds(60);
    putAlarm(name, unique());
    MetricAlarm alarm = described(name).get(0);
    assertEquals(StateValue.INSUFFICIENT_DATA, alarm.stateValue());
    assertEquals(1.5, alarm.threshold());
    assertEquals(2, alarm.evaluationPeriods());
    assertTrue(alarm.alarmConfigurationUpdatedTimestamp().isAfter(before));
    assertEquals(
        "shop",
        WATCH.listTagsForResource(r -> r.resourceARN(alarm.alarmArn())).tags().get(0).value());

    WATCH.setAlarmState(
        r -> r.alarmName(name).stateValue(StateValue.ALARM).stateReason("set by a test"));
    MetricAlarm changed = described(name).get(0);
    assertEquals(StateValue.ALARM, changed.stateValue());
    assertEquals("set by a test", changed.stateReason());
    assertNotEquals(alarm.stateUpdatedTimestamp(), changed.stateUpdatedTimestamp());
    assertEquals(
        List.of("Alarm updated from INSUFFICIENT_DATA to ALARM"),
        WATCH
            .describeAlarmHistory(
                r -> r.alarmName(name).historyItemType(HistoryItemType.STATE_UPDATE))
            .alarmHistoryItems()
            .stream()
            .map(item -> item.historySummary())
            .toList());

    WATCH.deleteAlarms(r -> r.alarmNames(name));
    assertEquals(List.of(), described(name));
  }

  @Test
  void errorsHaveTheirCodes() {
    CloudWatchException missing =
        assertThrows(
            CloudWatchException.class,
            () ->
                WATCH.setAlarmState(
                    r -> r.alarmName(unique()).stateValue(StateValue.OK).stateReason("")));
    // In the Query protocol two exceptions of the model have this code, and the SDK takes one of them.
    assertEquals("ResourceNotFound", missing.awsErrorDetails().errorCode());
    CloudWatchException refused =
        assertThrows(
            CloudWatchException.class,
            () -> WATCH.deleteAlarms(r -> r.alarmNames(List.of())));
    assertEquals(400, refused.statusCode());
    CloudWatchException unsupported =
        assertThrows(
            CloudWatchException.class,
            () -> values(MetricDataQuery.builder().id("q").expression("SELECT 1 FROM x").build()));
    assertTrue(unsupported.awsErrorDetails().errorMessage().startsWith("Metrics Insights"));
  }
}
