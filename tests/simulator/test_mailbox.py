"""The server's mailbox: who goes first in a zero step, and when a message goes out."""

from __future__ import annotations

import pytest

from beasy_sched.simulator.clock import StepClock
from beasy_sched.simulator.mailbox import LAST, Item, Mailbox

WAIT = 0


class Post:
    """A mailbox whose happenings are noted in their order."""

    def __init__(self):
        self.clock = StepClock()
        self.box = Mailbox(self.clock)
        self.notes = []

    def item(self, name, then=None):
        def sender_goes_on():
            self.notes.append(f"{name} sent")
            if then is not None:
                then()

        return Item(lambda: self.notes.append(f"{name} taken"), sender_goes_on)

    def put(self, name, then=None):
        item = self.item(name, then)
        self.box.put(item)
        return item

    def pause(self, name):
        """An action that the next zero step ends."""
        return self.clock.wait(WAIT, name, 0.0)

    def take(self, *, may_send=False):
        self.notes.clear()
        return self.box.take(lambda: may_send, lambda action: self.notes.append(f"{action.subject} woken"))


def test_a_server_that_waited_goes_on_before_the_sender():
    """So the sender's next item finds it waiting again."""
    post, found = Post(), []
    post.box.turn()
    post.put("first", lambda: found.append(post.put("second")))
    assert not post.take()
    assert found[0].met
    assert post.notes == ["first taken", "first sent"]


def test_a_server_that_comes_to_an_item_lets_the_sender_go_on_first():
    post, found = Post(), []
    post.put("first", lambda: found.append(post.put("second")))
    post.box.turn()
    post.take()
    assert not found[0].met
    assert post.box.items


def test_a_server_that_has_a_message_to_send_lets_the_sender_go_on_first():
    post, found = Post(), []
    post.box.turn()
    post.put("first", lambda: found.append(post.put("second")))
    assert post.take(may_send=True)
    assert not found[0].met


@pytest.mark.parametrize(("may_send", "sends"), [(False, [False, False]), (True, [False, True])])
def test_a_message_goes_out_when_no_item_waits_and_the_scheduler_is_ready(may_send, sends):
    post = Post()
    post.put("first")
    post.put("second")
    post.box.turn()
    assert [post.take(may_send=may_send) for _ in range(2)] == sends
    assert not post.box.items


def test_what_is_put_in_the_same_zero_step_comes_after_the_look():
    post = Post()
    post.put("first", lambda: post.put("second"))
    post.box.turn()
    assert post.take(may_send=True)
    assert post.box.items


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_zero_step_ends_is_woken_in_the_order_of_creation(waits):
    """An item sets out when it meets the server, or when the server turns to it."""
    post = Post()
    if waits:
        post.box.turn()
    post.pause("a")
    post.put("item")
    if not waits:
        post.pause("b")
        post.box.turn()
    post.pause("c")
    post.take()
    before = ["a woken"] if waits else ["a woken", "b woken"]
    assert post.notes == ["item taken", *before, "item sent", "c woken"]


def test_an_item_behind_another_sets_out_when_the_server_turns_to_it():
    """What the first sender begins before that ends before the second sender goes on; later things after."""
    post = Post()
    post.put("first", lambda: post.pause("a"))
    post.put("second")
    post.box.turn()
    post.take()
    post.pause("b")
    post.take()
    assert post.notes == ["second taken", "a woken", "second sent", "b woken"]


def test_late_items_come_after_all_others_of_the_zero_step():
    post = Post()
    post.put("first", lambda: (post.box.put_late(post.item("late"), LAST), post.put("second")))
    post.box.turn()
    notes = []
    for _ in range(3):
        post.take()
        notes += post.notes
    assert [note for note in notes if note.endswith("taken")] == ["first taken", "second taken", "late taken"]


def test_quiet_is_a_mailbox_without_items_late_ones_or_zero_steps_to_come():
    post = Post()
    assert post.box.is_quiet()
    post.pause("a")
    assert not post.box.is_quiet()
    post.clock.zero_step()
    assert post.box.is_quiet()
    post.box.put_late(post.item("late"), LAST)
    assert not post.box.is_quiet()
    assert not post.box.items
    post.box.put_rest()
    assert not post.box.is_quiet()
    assert post.box.items
    post.take()
    assert post.box.is_quiet()
