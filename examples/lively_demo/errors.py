"""What went wrong at that company, as its handlers raised it."""

_FRAMES = """Traceback (most recent call last):
  File "/srv/meridian/billing/tasks.py", line 88, in export_invoices
    batch = datev.upload(rows, mandant=mandant)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/meridian/billing/datev.py", line 141, in upload
"""

UNANSWERED = """    answer = self.session.post(self.url, json=payload, timeout=20)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/meridian/.venv/lib/python3.12/site-packages/requests/adapters.py", line 713, in send
    raise ReadTimeout(e, request=request)
requests.exceptions.ReadTimeout: HTTPSConnectionPool(host='api.datev.example', port=443): Read timed out."""

ODD_ACCOUNT = """    line = self.line_of(invoice)
           ^^^^^^^^^^^^^^^^^^^^^
  File "/srv/meridian/billing/datev.py", line 97, in line_of
    account = ACCOUNTS[invoice.vat_rate]
              ~~~~~~~~^^^^^^^^^^^^^^^^^^
KeyError: Decimal('{rate}')"""

LOCKED = """Traceback (most recent call last):
  File "/srv/meridian/shared/rows.py", line 52, in locked
    return queryset.select_for_update(nowait=True).get(pk=pk)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
django.db.utils.OperationalError: could not obtain lock on row in relation "order" """.strip()

REFUSED = "AnsweredNo: POST https://hooks.northwind.example/v2/stock answered 403 Forbidden"


def unanswered() -> str:
    return _FRAMES + UNANSWERED


def odd_account(rate: str) -> str:
    return _FRAMES + ODD_ACCOUNT.format(rate=rate)
