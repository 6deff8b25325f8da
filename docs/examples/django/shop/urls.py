from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_POST

from shop.models import Order
from shop.queues import orders


@require_POST
def place(request: HttpRequest) -> JsonResponse:
    with transaction.atomic():
        order = Order.objects.create(item=request.POST["item"])
        transaction.on_commit(lambda: orders().send({"order": order.pk}))
    return JsonResponse({"order": order.pk}, status=202)


urlpatterns = [path("orders", place)]
