"""A shop with three things, on loopback: what the demonstration of consent buys from (docs/demo-consent.md).

    python3 shop.py [PORT]

GET / lists what there is, POST /orders with {"item": NAME} orders it, GET /orders lists what was ordered.
"""
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_MAX = 4096
GOODS = {"lamp": "49.00 EUR", "chair": "120.00 EUR", "desk": "310.00 EUR"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    orders = []

    def do_GET(self):
        pages = {"/": GOODS, "/orders": self.orders}
        if self.path in pages:
            self.reply(200, pages[self.path])
        else:
            self.reply(404, {"error": "there are / and /orders"})

    def do_POST(self):
        size = int(self.headers.get("Content-Length", 0))
        if size > BODY_MAX:
            self.close_connection = True
            return self.reply(413, {"error": "the order is too large"})
        try:
            item = json.loads(self.rfile.read(size))["item"]
            price = GOODS[item]
        except (ValueError, KeyError, TypeError):
            return self.reply(400, {"error": f"expected an item: {', '.join(GOODS)}"})
        if self.path != "/orders":
            return self.reply(404, {"error": "orders go to /orders"})
        order = {"number": len(self.orders) + 1, "item": item, "price": price}
        self.orders.append(order)
        return self.reply(201, order)

    def reply(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def serve(port=0):
    """A server that listens on loopback, with its own list `orders`; its port is server_address[1]."""
    handler = type("Shop", (Handler,), {"orders": []})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.orders = handler.orders
    return server


if __name__ == "__main__":
    shop = serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(f"http://127.0.0.1:{shop.server_address[1]}", flush=True)
    shop.serve_forever()
