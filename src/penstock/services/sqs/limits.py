"""The numbers of SQS that a request can meet. Texts are formatted from them."""

from __future__ import annotations

from penstock.limits import MINUTE, SECOND, Limits

_BROKER = Limits()

VISIBILITY_S_MAX = _BROKER.visibility_ms_max // SECOND
PURGE_PAUSE_S = _BROKER.purge_pause_ms // SECOND
DELETE_PAUSE_S = _BROKER.delete_pause_ms // SECOND
DELAY_S_MAX = 15 * MINUTE // SECOND
WAIT_S_MAX = 20
RETENTION_S_MIN, RETENTION_S_MAX = 60, 14 * 24 * 60 * 60
KMS_REUSE_S_MIN, KMS_REUSE_S_MAX = 60, 24 * 60 * 60

MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX = 1024, 1024 * 1024
BATCH_BYTES_MAX = MESSAGE_BYTES_MAX  # of all entries together
BATCH_ENTRIES_MAX = 10
RECEIVE_COUNT_MAX = 10
RECEIVE_NAMES_LENGTH_MAX = 16 * 1024  # of all names in one list of a receive, which may wait with them

ATTRIBUTES_MAX = 10
ATTRIBUTE_NAME_LENGTH_MAX = 256
ATTRIBUTE_TYPE_LENGTH_MAX = 256
NUMBER_LENGTH_MAX = 300
NUMBER_DIGITS_MAX = 38

QUEUE_NAME_LENGTH_MAX = 80  # also of a label and of the id of a batch entry
QUEUE_URL_LENGTH_MAX = 1024
ID_LENGTH_MAX = 128  # a message group, a deduplication id, a receive attempt
KMS_KEY_LENGTH_MAX = 2048

TAGS_MAX = 50
TAG_KEY_LENGTH_MAX = 128
TAG_VALUE_LENGTH_MAX = 256

POLICY_BYTES_MAX = 8192  # also of a redrive policy, where ten ARNs need a fifth of it
POLICY_STATEMENTS_MAX = 20
POLICY_PRINCIPALS_MAX = 50  # of all statements
POLICY_CONDITIONS_MAX = 10  # of one statement: one for each operator and key
POLICY_ACTIONS_MAX = 7  # of one statement
PERMISSION_ACCOUNTS_MAX = 1000  # of one AddPermission: more do not fit into the policy
PERMISSION_ACCOUNT_LENGTH_MAX = 64

REDRIVE_RECEIVES_MAX = 1000
REDRIVE_SOURCES_MAX = 10

LIST_RESULTS_MAX = 1000
MOVE_TASKS_LISTED_MAX = 10
