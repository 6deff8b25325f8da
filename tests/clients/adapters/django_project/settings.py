from __future__ import annotations

import django

SECRET_KEY = "of a test"
USE_TZ = True
INSTALLED_APPS = ["django_tasks"] if django.VERSION < (6,) else []
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
TASKS = {
    "default": {
        "BACKEND": "penstock.client.adapters.django_tasks.TasksBackend",
        "QUEUES": ["default", "urgent"],
        "OPTIONS": {"queue_prefix": "app-"},
    }
}
