"""How large an order may be, and a delivery: as many bytes in every script and from every language, since UTF-8 is what is measured."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.apps.control import Delivery, Order, Receipt, Worker
from tenure.apps.control.order import DELIVERY_BYTES_MAX, ORDER_BYTES_MAX
from tenure.errors import ConfigError
from tests.control.test_orders import by


@pytest.mark.parametrize("letter", ["x", "é", "漢", "\N{GRINNING FACE}", "\x7f"])
def test_an_order_may_be_as_large_in_any_script(tmp_path: Path, letter: str) -> None:
    worker = Worker(tmp_path / "journal.db")
    largest = (ORDER_BYTES_MAX - 2) // len(letter.encode()) * letter
    for number, in_ascii in enumerate([True, False], 1):  # as some languages write it, and as the others do
        said = {"number": number, "complete": False, "orders": [{"id": "a", "payload": largest}]}
        delivery = Delivery.from_json(json.dumps(said, ensure_ascii=in_ascii).encode())
        assert worker.take(by(7), delivery) == (Receipt(known=("a",)) if number > 1 else Receipt(accepted=("a",)))
        assert ORDER_BYTES_MAX <= len(delivery.to_json()) < ORDER_BYTES_MAX + 100
    with pytest.raises(ConfigError, match="must have at most 65536 as JSON"):
        Order("a", largest + 4 * letter)
    worker.close()


def test_a_delivery_may_be_as_large_as_what_arrives_however_it_is_spelled_here() -> None:
    orders: list[dict[str, object]] = [{"id": f"{number:03}", "payload": "漢" * 21_000} for number in range(66)]
    orders.append({"id": "numbers", "payload": [10**15] * 3000})
    said = json.dumps({"number": 1, "complete": True, "orders": orders}, ensure_ascii=False, separators=(",", ":"))
    # As other languages write the same numbers.
    body = said.replace(str(10**15), "1e15").encode()
    body += b" " * (DELIVERY_BYTES_MAX - len(body))
    delivery = Delivery.from_json(body)
    assert len(delivery.orders) == 67
    with pytest.raises(ConfigError, match=f"delivery = {DELIVERY_BYTES_MAX + 1} bytes"):
        Delivery.from_json(body + b" ")


@given(st.text(st.characters(codec=None, categories=None)) | st.text("\\u0d8f\x00\x7f\ud83d\ude00é", max_size=8))
def test_what_is_sent_is_what_was_ordered_in_utf_8_whatever_it_is(text: str) -> None:
    # Two halves of a character are one, to whoever reads JSON.
    payload = json.loads(json.dumps(text))
    sent = Delivery.of({"a": payload}).to_json()
    assert json.loads(sent)["orders"] == [{"id": "a", "payload": payload}]
    assert Delivery.from_json(sent).orders[0].text == Order("a", payload).text
    if payload.isprintable():
        assert json.dumps(payload, ensure_ascii=False).encode() in sent
