<?php

// config/queue.php: the connection "sqs" of Laravel, with an endpoint.
return [
    'default' => env('QUEUE_CONNECTION', 'sqs'),

    'connections' => [
        'sqs' => [
            'driver' => 'sqs',
            'endpoint' => env('SQS_ENDPOINT', 'http://127.0.0.1:9324'),
            'prefix' => env('SQS_PREFIX', 'http://127.0.0.1:9324/000000000000'),
            'queue' => env('SQS_QUEUE', 'default'),
            'region' => env('AWS_DEFAULT_REGION', 'us-east-1'),
            'key' => env('AWS_ACCESS_KEY_ID', 'any'),
            'secret' => env('AWS_SECRET_ACCESS_KEY', 'any'),
            'after_commit' => true,
        ],
    ],

    'failed' => [
        'driver' => env('QUEUE_FAILED_DRIVER', 'database-uuids'),
        'database' => env('DB_CONNECTION', 'sqlite'),
        'table' => 'failed_jobs',
    ],
];
