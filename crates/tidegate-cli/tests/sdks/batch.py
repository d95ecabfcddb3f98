"""Thousands of calls at once with the official asynchronous SDK, until somebody ends it.

    batch.py THOUSANDS
"""

import asyncio
import sys

import openai

ASKED = dict(model="sim", max_tokens=8, messages=[{"role": "user", "content": "What is a tide?"}])


async def main():
    # A client has a thousand connections at most.
    clients = [openai.AsyncOpenAI(api_key="any") for _ in range(int(sys.argv[1]))]
    calls = (client.chat.completions.create(**ASKED) for client in clients for _ in range(1000))
    await asyncio.gather(*calls)


asyncio.run(main())
