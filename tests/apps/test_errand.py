"""What a command is given and what is kept of its words, with nobody at the other end of a pipe, or one who stays."""

import asyncio
import os
from pathlib import Path

from tenure.apps.run.errand import Tail, given


def test_of_what_is_said_the_end_is_kept_and_one_who_holds_the_other_end_is_not_waited_for() -> None:
    async def main() -> None:
        tail = Tail([2], 100)
        ((_, writes, descriptor),) = tail.files
        held = os.dup(writes)  # as a child of the command would
        os.set_blocking(held, False)
        for _ in range(64):
            os.write(held, b"x" * 4096)
            await asyncio.sleep(0)
        os.write(held, b"end")
        assert (descriptor, tail.close()) == (2, "x" * 97 + "end")
        os.close(held)

    asyncio.run(main())


def open_files() -> set[Path]:
    return set(Path("/dev/fd").iterdir())


def test_what_a_command_is_given_can_be_read_to_its_end_and_need_not_be() -> None:
    async def main() -> None:
        text = b"y" * 200_000  # more than a pipe holds
        before = open_files()
        async with given(text) as (_, reads, descriptor):
            with os.fdopen(os.dup(reads), "rb") as opened:
                assert (descriptor, await asyncio.to_thread(opened.read)) == (0, text)
        async with given(text):
            pass
        await asyncio.sleep(0)
        assert open_files() == before

    asyncio.run(main())
