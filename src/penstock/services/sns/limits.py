"""The numbers of SNS that a request can meet. Texts are formatted from them."""

from __future__ import annotations

import msgspec

from penstock.limits import DAY

ARN_PARTS_MIN = 6
ARN_LENGTH_MAX = 2048
ENDPOINT_LENGTH_MAX = 2048
PROTOCOL_LENGTH_MAX = 64
EMAIL_LENGTH_MAX = 320
PHONE_LENGTH_MAX = 40

PAGE_SIZE = 100
ORIGINATION_NUMBERS_MAX = 30  # of one page
SANDBOX_NUMBERS_MAX = 100  # of one page

SUBJECT_UNITS_MAX = 100  # of UTF-16
MESSAGE_BYTES_MAX = 262_144
LARGE_MESSAGE_SUBSCRIPTIONS_MAX = 100  # of a topic with larger messages
TOPIC_MESSAGE_BYTES_MIN, TOPIC_MESSAGE_BYTES_MAX = 1024, 1024 * 1024  # that a topic may be set to
BATCH_ENTRIES_MAX = 10
BATCH_ID_LENGTH_MAX = 80
BATCH_MEMBERS_MAX = 2000
"""The members of all lists and maps of one PublishBatch may be so many, and the parameters of its form: ten messages
have 60 attributes each."""
ID_LENGTH_MAX = 128  # a message group, a deduplication id

ATTRIBUTE_NAME_BYTES_MAX = 256
NUMBER_LENGTH_MAX = 300
NUMBER_DIGITS_MAX = 38

DISPLAY_NAME_LENGTH_MAX = 100
KMS_KEY_LENGTH_MAX = 2048
POLICY_BYTES_MAX = 30_720
POLICY_STATEMENTS_MAX = 100
LABEL_LENGTH_MAX = 256
PERMISSION_ACCOUNTS_MAX = 1000  # of one AddPermission: more do not fit into the policy
REDRIVE_BYTES_MAX = 4096
ARCHIVE_LENGTH_MAX, ARCHIVE_DAYS_MAX = 4096, 365
REPLAY_BYTES_MAX = 4096

TAGS_MAX = 50
TAG_KEY_LENGTH_MAX = 128
TAG_VALUE_LENGTH_MAX = 256
RESOURCE_ARN_LENGTH_MAX = 1011

APPLICATION_NAME_LENGTH_MAX = 256
CUSTOM_DATA_BYTES_MAX = 2048
TOKEN_BYTES_MAX = 4096
APPLICATION_VALUE_BYTES_MAX = 16 * 1024  # of an attribute: a certificate
SMS_VALUE_LENGTH_MAX = 1024
CODE_VALID_MS = DAY  # of a phone number in the sandbox


class SnsLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much an account may have, in one value that tests can replace."""

    topics_max: int = 100_000  # standard topics of a region
    fifo_topics_max: int = 1_000
    subscriptions_max: int = 12_500_000  # of a topic
    fifo_subscriptions_max: int = 100
    filters_max: int = 1_000  # of a topic; SNS: 200, which AWS raises on request
    topic_bytes_max: int = 256 * 1024 * 1024
    """All topics and subscriptions that the account has in one shard take so many, with their attributes."""
    applications_max: int = 100  # of an account, in all regions
    endpoints_max: int = 10_000
    phone_numbers_max: int = 1_000  # in the sandbox
    mobile_bytes_max: int = 32 * 1024 * 1024  # of everything that is stored about applications and phones
