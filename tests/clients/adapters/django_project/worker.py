from __future__ import annotations

import os

import django

from penstock.client import Constant, RetryPolicy

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_project.settings")
django.setup()

from penstock.client.adapters.django_tasks import worker  # noqa: E402 - after the setup

app = worker(concurrency=1, prefetch=0, retry=RetryPolicy(Constant(1)))
