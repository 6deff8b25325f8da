module orders

go 1.25

require (
	github.com/aws/aws-sdk-go-v2 v1.47.5
	github.com/aws/aws-sdk-go-v2/credentials v1.20.13
	github.com/aws/aws-sdk-go-v2/service/sqs v1.52.8
	github.com/testcontainers/testcontainers-go v0.44.0
)
