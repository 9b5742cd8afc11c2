"""How a client of the demo calls the emulated provider: one keep-alive HTTP connection."""
import http.client
import json
from dataclasses import dataclass
from typing import Any


@dataclass
class Answer:
    """What came back: status 0 stands for a connection that broke."""

    status: int
    headers: dict[str, str]
    body: Any


class Crm:
    """One keep-alive connection to the provider; reconnects by itself after an error."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def call(self, tenant: str, endpoint: str, key: str, record: dict[str, Any]) -> Answer:
        """Sends one record to one endpoint and returns the answer; raises nothing on a broken line."""
        headers = {"Content-Type": "application/json", "X-Tenant": tenant, "Idempotency-Key": key}
        try:
            self.connection.request("POST", f"/v1/{endpoint}", json.dumps(record).encode(), headers)
            response = self.connection.getresponse()
            body = json.loads(response.read())
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()
            return Answer(0, {}, {"error": repr(error)})
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)
