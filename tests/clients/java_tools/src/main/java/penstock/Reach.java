package penstock;

import java.net.URI;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.sqs.SqsClient;

/** Clients of the servers that the environment names. */
class Reach {
  static SqsClient sqs() {
    return SqsClient.builder()
        .endpointOverride(URI.create(System.getenv("SQS_ENDPOINT")))
        .region(Region.US_EAST_1)
        .credentialsProvider(keys())
        .httpClientBuilder(UrlConnectionHttpClient.builder())
        .build();
  }

  static S3Client s3() {
    return S3Client.builder()
        .endpointOverride(URI.create(System.getenv("S3_ENDPOINT")))
        .region(Region.US_EAST_1)
        .credentialsProvider(keys())
        .httpClientBuilder(UrlConnectionHttpClient.builder())
        .forcePathStyle(true)
        .build();
  }

  private static StaticCredentialsProvider keys() {
    return StaticCredentialsProvider.create(
        AwsBasicCredentials.create(System.getenv("SQS_ACCOUNT"), "any"));
  }
}
